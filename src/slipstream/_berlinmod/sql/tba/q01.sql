-- Q1: the models of the vehicles with licence plates from QueryLicences.
SELECT DISTINCT LL.Licence, C.Model
FROM dataMcar C, QueryLicences LL
WHERE C.Licence = LL.Licence
