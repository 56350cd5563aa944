//! What one job's code may call, and how often.

use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;
use thermae_runner::frames;
use thermae_schemas::{ErrorCode, ToolSpec};

use super::schema::Schema;
use crate::fit::LARGEST;

/// Python's reserved words: a tool of such a name gets a `_` behind it.
const RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Why a call did not leave the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Its code.
    pub code: ErrorCode,
    /// For the code that called.
    pub message: String,
}

impl Refused {
    /// As the code sees it.
    pub(crate) fn text(&self) -> String {
        format!("{}: {}", self.code.as_str(), self.message)
    }
}

/// What one job's code may call.
pub(crate) struct Gate {
    tools: HashMap<String, Declared>,
    calls: u32,
}

struct Declared {
    schema: Option<Schema>,
    max_calls: Option<u32>,
    calls: u32,
}

impl Gate {
    /// The gate for these tools, and the tools as the runner is told of them. `params` are the arguments' names in order,
    /// as found by [`super::param_names`].
    ///
    /// # Errors
    /// Two tools of one name, a schema that is none: in words for whoever submitted the job.
    pub(crate) fn new(specs: &[ToolSpec], mut params: Vec<Vec<String>>) -> Result<(Self, Vec<frames::Tool>), String> {
        params.resize(specs.len(), Vec::new());
        let mut tools = HashMap::with_capacity(specs.len());
        let mut told: Vec<frames::Tool> = Vec::with_capacity(specs.len());
        for (spec, params) in specs.iter().zip(params) {
            let alias = alias(&spec.name);
            if let Some(other) = told.iter().find(|t| t.alias == alias) {
                return Err(format!(
                    "the tools {:?} and {:?} would both be called {alias} in the code; rename one",
                    other.name, spec.name
                ));
            }
            let schema = spec.input_schema.as_ref().map(Schema::compile).transpose();
            let schema = schema.map_err(|e| format!("input_schema of the tool {:?}: {e}", spec.name))?;
            tools.insert(spec.name.clone(), Declared { schema, max_calls: spec.max_calls, calls: 0 });
            told.push(frames::Tool {
                name: spec.name.clone(),
                alias,
                description: spec.description.clone(),
                params,
                raw: spec.raw,
            });
        }
        Ok((Self { tools, calls: 0 }, told))
    }

    /// Checks one call and counts it.
    ///
    /// # Errors
    /// It must not leave the worker, and why.
    pub(crate) fn check(&mut self, name: &str, arguments: &RawValue) -> Result<Value, Refused> {
        let refuse = |code, message| Err(Refused { code, message });
        let Some(tool) = self.tools.get_mut(name) else {
            return refuse(ErrorCode::UnknownTool, format!("the job declares no tool {name:?}"));
        };
        let bytes = arguments.get().len();
        // The call is a message to the client, and would be refused by the broker.
        if bytes > LARGEST {
            return refuse(
                ErrorCode::ToolArguments,
                format!("the arguments of {name:?} are larger than {LARGEST} bytes"),
            );
        }
        let arguments: Value = match serde_json::from_str(arguments.get()) {
            Ok(Value::Object(map)) => Value::Object(map),
            _ => return refuse(ErrorCode::ToolArguments, format!("the arguments of {name:?} are no JSON object")),
        };
        if let Some(schema) = &tool.schema
            && let Err(why) = schema.check(&arguments, bytes)
        {
            return refuse(ErrorCode::ToolArguments, format!("the arguments of {name:?} {why}"));
        }
        if let Some(max) = tool.max_calls.filter(|max| tool.calls >= *max) {
            return refuse(ErrorCode::ToolCallLimit, format!("{name:?} may be called {max} times in one job"));
        }
        tool.calls += 1;
        self.calls += 1;
        Ok(arguments)
    }

    /// Calls that were let through.
    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }
}

/// The name of a tool as the code sees it.
fn alias(name: &str) -> String {
    let mut alias: String = name.chars().map(|c| if c.is_alphanumeric() || c == '_' { c } else { '_' }).collect();
    if alias.starts_with(|c: char| c.is_numeric()) || alias.is_empty() {
        alias.insert(0, '_');
    }
    if RESERVED.contains(&alias.as_str()) {
        alias.push('_');
    }
    alias
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str) -> ToolSpec {
        ToolSpec { name: name.into(), description: String::new(), input_schema: None, max_calls: None, raw: false }
    }

    fn raw(value: &Value) -> Box<RawValue> {
        serde_json::value::to_raw_value(value).unwrap()
    }

    #[test]
    fn names_become_identifiers() {
        for (name, expected) in
            [("get_sales", "get_sales"), ("a-b.c/d", "a_b_c_d"), ("2x", "_2x"), ("class", "class_"), ("größe", "größe")]
        {
            assert_eq!(alias(name), expected);
        }
    }

    #[test]
    fn two_tools_must_not_become_one() {
        let error = Gate::new(&[spec("a.b"), spec("a-b")], vec![]).err().unwrap();
        assert!(error.contains("\"a.b\"") && error.contains("a_b"), "{error}");
    }

    #[test]
    fn a_call_is_checked_before_it_leaves() {
        let mut tool = spec("t");
        tool.max_calls = Some(1);
        tool.input_schema =
            Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
        let (mut gate, told) = Gate::new(&[tool], vec![vec!["n".into()]]).unwrap();
        assert_eq!(told[0].params, ["n"]);
        let code = |r: Result<Value, Refused>| r.unwrap_err().code;
        assert_eq!(code(gate.check("u", &raw(&json!({})))), ErrorCode::UnknownTool);
        assert_eq!(code(gate.check("t", &raw(&json!([1])))), ErrorCode::ToolArguments);
        assert_eq!(code(gate.check("t", &raw(&json!({"n": "one"})))), ErrorCode::ToolArguments);
        assert_eq!(gate.check("t", &raw(&json!({"n": 1}))).unwrap(), json!({"n": 1}));
        assert_eq!(code(gate.check("t", &raw(&json!({"n": 1})))), ErrorCode::ToolCallLimit);
        assert_eq!(gate.calls(), 1);
    }

    #[test]
    fn a_schema_that_is_none_is_refused_and_so_is_one_that_points_elsewhere() {
        for schema in [json!({"type": "objekt"}), json!({"$ref": "http://127.0.0.1:1/x.json"}), json!({"pattern": "("})]
        {
            let mut tool = spec("t");
            tool.input_schema = Some(schema.clone());
            assert!(Gate::new(&[tool], vec![]).is_err(), "{schema}");
        }
    }

    #[test]
    fn schemas_speak_json_and_not_python() {
        let mut tool = spec("t");
        tool.input_schema =
            Some(json!({"properties": {"b": {"enum": [true, false, null]}}, "additionalProperties": false}));
        let (mut gate, _) = Gate::new(&[tool], vec![]).unwrap();
        assert!(gate.check("t", &raw(&json!({"b": null}))).is_ok());
        assert!(gate.check("t", &raw(&json!({"b": "None"}))).is_err());
    }
}
