//! The schemas of the document.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use thermae_schemas::{Job, OLDEST, PROTOCOL};

/// The schemas that operations have asked for.
pub(super) struct Schemas(SchemaGenerator);

impl Schemas {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let settings = settings.with_transform(RecursiveTransform(bound));
        Self(settings.into_generator())
    }

    /// The schema of a type: a reference, as a rule.
    pub(super) fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }

    /// The schema of a job that is submitted: one that needs no id.
    pub(super) fn run_request(&mut self) -> Value {
        self.of::<Job>();
        json!({ "$ref": "#/components/schemas/RunRequest" })
    }

    /// All schemas, by name.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        let mut all = self.0.take_definitions(true);
        if let Some(mut job) = all.get("Job").cloned() {
            if let Some(required) = job.get_mut("required").and_then(Value::as_array_mut) {
                required.retain(|name| name != "id");
            }
            job["properties"]["protocol"]["minimum"] = json!(OLDEST);
            job["properties"]["protocol"]["maximum"] = json!(PROTOCOL);
            job["description"] = json!("A job. Without an id, it gets a new one. Unknown fields are refused.");
            all.insert("RunRequest".to_owned(), job);
            all.remove("Job");
        }
        all.values_mut().for_each(rename);
        all
    }
}

/// Gives an integer the bounds of its format, where it has none of its own: for readers of JSON Schema, formats bound
/// nothing.
fn bound(schema: &mut Schema) {
    let (least, most) = match schema.get("format").and_then(Value::as_str) {
        Some("uint16") => (json!(0), json!(u16::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("uint" | "uint64") => (json!(0), json!(u64::MAX)),
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("int64") => (json!(i64::MIN), json!(i64::MAX)),
        _ => return,
    };
    let fields = schema.ensure_object();
    fields.entry("minimum").or_insert(least);
    fields.entry("maximum").or_insert(most);
}

/// Makes references to a job lead to one that needs no id.
fn rename(schema: &mut Value) {
    match schema {
        Value::String(text) if text == "#/components/schemas/Job" => *text = "#/components/schemas/RunRequest".into(),
        Value::Object(fields) => fields.values_mut().for_each(rename),
        Value::Array(items) => items.iter_mut().for_each(rename),
        _ => {}
    }
}
