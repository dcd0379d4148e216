-- A model in the form that dbt has, on the tables of a mirror: what orders in each state are worth.
-- The lines of an order are an array of structs; a row of the result is for one state and one article.

with lines as (
    select state, unnest(lines) as line, _cluster_time as changed
    from {{ source('shop', 'orders') }}
)

select
    state,
    line.sku as sku,
    sum(line.qty)::bigint as pieces,
    sum(line.qty * line.price) as revenue,
    max(changed) as last_change
from lines
group by all
order by all
