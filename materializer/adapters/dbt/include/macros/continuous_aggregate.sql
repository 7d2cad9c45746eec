{#- A model that is a continuous aggregate: `dbt run` defines or changes it, and refreshes what is dirty. -#}
{% materialization continuous_aggregate, adapter='materializer', supported_languages=['sql'] %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set is_full_refresh = should_full_refresh() -%}

  {{ run_hooks(pre_hooks) }}

  {#- what another kind of model left under this name goes only on request, as with every materialization of dbt -#}
  {%- if existing_relation is not none and is_full_refresh and not adapter.is_continuous_aggregate(this.identifier) -%}
    {{ log('Dropping ' ~ existing_relation ~ ', which is no continuous aggregate') }}
    {{ adapter.drop_relation(existing_relation) }}
  {%- endif -%}

  {%- set result = adapter.run_continuous_aggregate(
        target_relation,
        compiled_code,
        model.get('description', ''),
        config.get('tblproperties'),
        config.get('on_configuration_change', 'apply'),
        is_full_refresh,
      ) -%}
  {%- call noop_statement('main', 'OK ' ~ result['message'], 'OK', result['rows']) -%}
    {{ compiled_code }}
  {%- endcall -%}

  {%- set grant_config = config.get('grants') -%}
  {% do apply_grants(target_relation, grant_config, should_revoke=should_revoke(existing_relation, is_full_refresh)) %}

  {{ run_hooks(post_hooks) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
