//! Configuration of the program `thermae-worker`.

use thermae_service::program;

use crate::Options;

/// Configuration of the program `thermae-worker`: how to reach RabbitMQ and Redis, and the worker's own options.
pub type Config = program::Config<9465, Options>;

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use thermae_service::program::Common;

    use super::*;

    fn keys<T: JsonSchema>() -> Vec<String> {
        let schema = schemars::SchemaGenerator::default().into_root_schema_for::<T>();
        schema.as_value()["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn every_key_belongs_to_one_part() {
        assert_eq!(keys::<Config>().len(), keys::<Common<9465>>().len() + keys::<Options>().len());
    }
}
