-- Linear Road in SQL on PostgreSQL: the paper's "System X", a database that is polled.
-- One call of process_second() handles all tuples of a second; seconds must come in their order.
-- docs/reference/linear-road.md has the rules. All tables are unlogged: nothing survives a crash, as the paper allowed.

drop schema if exists linear_road cascade;
create schema linear_road;
set search_path to linear_road;

create unlogged table input (
  type int, time int, vid int, spd int, xway int, lane int, dir int, seg int, pos int,
  qid int, sinit int, send int, dow int, tod int, day int
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
create index on input (time);

-- seconds that are there, whole, and wait to be processed
create unlogged table arrived (second int primary key);

-- the latest report of every vehicle on every expressway; still: for how many reports it has stood there; quote: a toll not yet charged
create unlogged table car (
  vid int, time int, xway int, dir int, lane int, seg int, pos int, still int, quote bigint, primary key (vid, xway)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
create index on car (xway, dir, lane, pos) where still >= 4;

-- the current minute: what each vehicle reported from each segment
create unlogged table visit (
  minute int, xway int, dir int, seg int, vid int, speeds int, reports int,
  primary key (minute, xway, dir, seg, vid)
) with (fillfactor = 70);

-- the minutes before
create unlogged table average (
  minute int, xway int, dir int, seg int, cars bigint, speed double precision, primary key (minute, xway, dir, seg)
);
create unlogged table accident (minute int, xway int, dir int, seg int, primary key (minute, xway, dir, seg));

-- what a segment costs in the current minute
create unlogged table current_minute (minute int);
create unlogged table price (xway int, dir int, seg int, lav int, toll bigint, alert int, primary key (xway, dir, seg));

create unlogged table account (vid int primary key, balance bigint) with (fillfactor = 70);
create unlogged table toll_history (vid int, day int, xway int, tolls int);
-- what a copy of the stored run adds to vehicles and expressways: copies have the history of what they are copies of
create unlogged table copies (vid_stride int, xway_stride int);

create unlogged table step (
  vid int, time int, spd int, xway int, lane int, dir int, seg int, pos int,
  entered boolean, charge bigint, still int, lav int, toll bigint, alert int, quote bigint
);
create unlogged table output (kind int, time int, id int, a bigint, b bigint);

create procedure new_minute(m int) language plpgsql set search_path to linear_road as $$
begin
  insert into average
  select minute, xway, dir, seg, count(*), avg(speeds::double precision / reports)
  from visit group by minute, xway, dir, seg;
  truncate visit, price, current_minute;
  delete from average where minute < m - 5;
  delete from accident where minute < m - 1;
  insert into current_minute values (m);
  insert into price
  select xway, dir, seg, coalesce(lav, -1),
    case when lav < 40 and cars > 50 and alert is null then 2 * (cars - 50) ^ 2 else 0 end, alert
  from (
    select xway, dir, seg, floor(avg(speed) + 1e-9) as lav, coalesce(max(cars) filter (where minute = m - 1), 0) as cars
    from average group by xway, dir, seg
  ) as speeds
  full outer join (
    select distinct on (xway, dir, near) xway, dir, near as seg, seg as alert
    from accident cross join generate_series(0, 4) as i
      cross join lateral (select seg - case dir when 0 then i else -i end as near) as upstream
    where minute = m - 1 and near between 0 and 99
    order by xway, dir, near, i
  ) as affected using (xway, dir, seg);
  analyze price;
end $$;

create procedure process_second(t int) language plpgsql set search_path to linear_road as $$
declare
  m int := t / 60 + 1;
begin
  if not exists (select from current_minute where minute = m) then
    call new_minute(m);
  end if;

  truncate step;
  insert into step
  select r.vid, r.time, r.spd, r.xway, r.lane, r.dir, r.seg, r.pos, entered,
    case when entered and same_trip then c.quote end,
    case when same_trip and r.time - c.time = 30 and (r.lane, r.pos) = (c.lane, c.pos) then c.still + 1 else 1 end,
    coalesce(p.lav, -1), coalesce(p.toll, 0), p.alert,
    case when not entered then c.quote when r.lane <> 4 then coalesce(p.toll, 0) end
  from (
    select distinct on (vid, xway) vid, time, spd, xway, lane, dir, seg, pos
    from input
    where time = t and type = 0 and time >= 0 and vid >= 0 and spd between 0 and 100 and xway >= 0 and lane between 0 and 4
      and dir between 0 and 1 and seg between 0 and 99 and pos between 0 and 527999 and seg = pos / 5280
    order by vid, xway, spd, lane, dir, seg, pos
  ) as r
  left join car as c on (c.vid, c.xway) = (r.vid, r.xway)
  left join price as p on (p.xway, p.dir, p.seg) = (r.xway, r.dir, r.seg)
  cross join lateral (
    select coalesce(r.time - c.time <= 30 and r.dir = c.dir and not (c.lane = 4 and r.lane <> 4), false)
      as same_trip
  ) as trip
  cross join lateral (select not same_trip or r.seg <> c.seg as entered) as stay;

  insert into account select vid, sum(charge) from step where charge > 0 group by vid
  on conflict (vid) do update set balance = account.balance + excluded.balance;

  insert into output select 0, time, vid, lav, toll from step where entered and lane <> 4;
  insert into output select 1, time, vid, alert, -1 from step where entered and lane <> 4 and alert is not null;

  insert into car select vid, time, xway, dir, lane, seg, pos, still, quote from step
  on conflict (vid, xway) do update
  set (time, dir, lane, seg, pos, still, quote) =
    (excluded.time, excluded.dir, excluded.lane, excluded.seg, excluded.pos, excluded.still, excluded.quote);

  insert into visit select m, xway, dir, seg, vid, spd, 1 from step
  on conflict (minute, xway, dir, seg, vid) do update
  set speeds = visit.speeds + excluded.speeds, reports = visit.reports + 1;

  insert into accident
  select distinct m, s.xway, s.dir, s.seg
  from step as s join car as c on (c.xway, c.dir, c.lane, c.pos) = (s.xway, s.dir, s.lane, s.pos)
  where s.still >= 4 and s.lane between 1 and 3 and c.still >= 4 and c.vid <> s.vid and c.time >= t - 30
  on conflict do nothing;

  insert into output
  select r.type, r.time, r.qid,
    case r.type when 2 then r.time when 3 then coalesce(h.tolls, 0) when 4 then case when r.sinit = r.send then 0 else -1 end end,
    case r.type when 2 then coalesce(a.balance, 0) when 4 then case when r.sinit = r.send then 0 else -1 end else -1 end
  from (select distinct * from input where time = t and type in (2, 3, 4)) as r
  left join account as a on r.type = 2 and a.vid = r.vid
  cross join copies as p
  left join toll_history as h
    on r.type = 3 and (h.vid, h.day, h.xway) = (r.vid % p.vid_stride, r.day, r.xway % p.xway_stride)
  where r.vid >= 0 and r.qid >= 0 and case r.type
    when 3 then r.xway >= 0 and r.day between 1 and 69
    when 4 then r.xway >= 0 and r.sinit between 0 and 99 and r.send between 0 and 99 and r.dow between 1 and 7
      and r.tod between 1 and 1440
    else true end;

  delete from input where time = t;
  delete from arrived where second = t;
end $$;
