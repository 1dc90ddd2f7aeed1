-- A shop: :rows events of users with products, with columns as users declare them.
\set ON_ERROR_STOP on
-- blocks of a transaction whose commit is not on disk yet do not become all-visible, and are not kept
set synchronous_commit = on;
select setseed(0.4);
create table users (id bigint primary key, email text not null, country char(2) not null, plan text, signed_up timestamptz not null, birthday date, referrer bigint);
insert into users select g, 'user' || g || '@example.' || (array['com', 'org', 'net'])[1 + g % 3], (array['DE', 'US', 'FR', 'GB', 'IN', 'BR', 'JP'])[1 + (random() * 6)::int],
	(array['free', 'pro', 'team', null])[1 + (random() * 3)::int], timestamptz '2022-01-01' + random() * interval '1000 days', date '1950-01-01' + (random() * 20000)::int,
	case when random() < 0.2 then (random() * g)::int + 1 end from generate_series(1, :rows / 10) g;
create table products (id int primary key, sku uuid not null default gen_random_uuid(), name text not null, category text not null, price numeric(10, 2) not null, weight float8);
insert into products (id, name, category, price, weight) select g, 'Product ' || md5(g::text), (array['books', 'toys', 'food', 'tools', 'garden', 'music', 'sport'])[1 + (random() * 6)::int],
	(random() * 500)::numeric(10, 2), random() * 20 from generate_series(1, 20000) g;
create table events (id bigserial primary key, user_id bigint not null, product_id int, kind text not null, at timestamptz not null, amount numeric(12, 2), quantity int, score float8, ip inet,
	session uuid not null, note text, props jsonb);
insert into events (user_id, product_id, kind, at, amount, quantity, score, ip, session, note, props) select 1 + (power(random(), 2) * (:rows / 10 - 1))::int,
	case when random() < 0.7 then 1 + (random() * 19999)::int end, (array['view', 'click', 'cart', 'buy', 'refund'])[1 + (power(random(), 2) * 3.99)::int],
	timestamptz '2024-01-01' + g * (interval '210 days' / :rows), case when random() < 0.4 then (random() * 300)::numeric(12, 2) end, (random() * 9)::int, random() * 100,
	('10.' || (g % 200) || '.' || (g % 251) || '.' || (g % 253))::inet, md5((g / 7)::text)::uuid, case when random() < 0.3 then 'note ' || md5(g::text) end,
	jsonb_build_object('ref', g % 50, 'dev', (array['ios', 'android', 'web'])[1 + g % 3]) from generate_series(1, :rows) g;
create index on events (user_id);
create index on events (at);
vacuum analyze users, products, events;
