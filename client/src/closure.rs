//! Tools that are closures of the client's program.

use std::collections::BTreeMap;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use thermae_schemas::{JobId, ToolFailure, ToolSpec};

use crate::ToolHandler;

type Run = Box<dyn Fn(Box<RawValue>) -> BoxFuture<'static, Result<Box<RawValue>, ToolFailure>> + Send + Sync>;

/// Tools that are closures, by name. A job needs both halves: [`Tools::specs`] is what the job declares, and the value
/// itself is the [`ToolHandler`] that answers the calls.
///
/// ```
/// use thermae_client::Tools;
///
/// #[derive(serde::Deserialize)]
/// struct Sum {
///     a: i64,
///     b: i64,
/// }
///
/// // The code calls it as `await add(a=20, b=22)`.
/// let tools = Tools::new().with("add", |sum: Sum| async move { Ok(sum.a + sum.b) });
/// assert_eq!(tools.specs()[0].name, "add");
/// ```
#[derive(Default)]
pub struct Tools(BTreeMap<String, (ToolSpec, Run)>);

impl Tools {
    /// No tools yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool without a description, a schema or a bound on its calls. Replaces a tool of the same name.
    ///
    /// The call's arguments are read as an `A`. If they don't fit, or if the closure gives an `Err`, the code gets a
    /// `ToolError` with the text. Several calls may run at the same time.
    #[must_use]
    pub fn with<A, R, F>(self, name: impl Into<String>, run: impl Fn(A) -> F + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        F: Future<Output = Result<R, String>> + Send + 'static,
    {
        self.with_spec(ToolSpec::new(name), run)
    }

    /// As [`Tools::with`], for a tool that is declared as `spec` says.
    #[must_use]
    pub fn with_spec<A, R, F>(mut self, spec: ToolSpec, run: impl Fn(A) -> F + Send + Sync + 'static) -> Self
    where
        A: DeserializeOwned,
        R: Serialize,
        F: Future<Output = Result<R, String>> + Send + 'static,
    {
        let run: Run = Box::new(move |arguments| match serde_json::from_str(arguments.get()) {
            Ok(arguments) => {
                let running = run(arguments);
                let answer = async move {
                    let result = running.await?;
                    to_raw_value(&result).map_err(|error| error.to_string().into())
                };
                answer.boxed()
            }
            Err(error) => futures::future::ready(Err(format!("the arguments do not fit: {error}").into())).boxed(),
        });
        self.0.insert(spec.name.clone(), (spec, run));
        self
    }

    /// The tools as a job declares them, for [`thermae_schemas::Job::tools`].
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.values().map(|(spec, _)| spec.clone()).collect()
    }
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tools").field(&self.0.keys()).finish()
    }
}

#[async_trait]
impl ToolHandler for Tools {
    async fn call(&self, _: &JobId, tool: &str, arguments: Box<RawValue>) -> Result<Box<RawValue>, ToolFailure> {
        let (_, run) = self.0.get(tool).ok_or_else(|| format!("the client has no tool {tool:?}"))?;
        run(arguments).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn a_closure_gets_typed_arguments_and_gives_a_value_or_an_error() {
        let tools = Tools::new().with("half", |(n,): (u32,)| async move {
            if n % 2 == 0 { Ok(n / 2) } else { Err(format!("{n} is odd")) }
        });
        let call = async |tool: &str, arguments: Value| {
            let answer = tools.call(&JobId::random(), tool, to_raw_value(&arguments).unwrap()).await?;
            Ok::<Value, ToolFailure>(serde_json::from_str(answer.get()).unwrap())
        };
        assert_eq!(call("half", json!([84])).await, Ok(json!(42)));
        assert_eq!(call("half", json!([7])).await, Err("7 is odd".into()));
        assert!(call("half", json!({ "n": 1 })).await.unwrap_err().message.starts_with("the arguments do not fit: "));
        assert!(call("third", json!([9])).await.unwrap_err().message.contains("\"third\""));
    }

    #[test]
    fn a_tool_is_declared_as_its_spec_says() {
        let spec = ToolSpec {
            description: "Sales of a year.".to_owned(),
            input_schema: Some((&json!({ "type": "object" })).into()),
            max_calls: Some(3),
            raw: true,
            ..ToolSpec::new("get sales")
        };
        let tools = Tools::new().with_spec(spec.clone(), |_: Value| async { Ok(()) });
        assert_eq!(tools.specs(), [spec]);
    }
}
