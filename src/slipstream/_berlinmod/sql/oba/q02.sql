-- Q2: how many vehicles are passenger cars.
SELECT count(Licence) AS Vehicles
FROM dataScar
WHERE Type = 'passenger'
