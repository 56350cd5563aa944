//! Attacks by jobs on the worker that all tenants share. They are judged by the worker's memory, and by
//! whether another tenant's jobs end meanwhile.

mod capabilities;
mod displays;
mod json_displays;
mod json_values;
mod kept_answers;
mod output_floods;
mod schemas;
mod tool_arguments;
mod unanswered_calls;

super::on_fleet!("worker":
    capabilities, displays, json_displays, json_values, kept_answers, output_floods, schemas, tool_arguments,
    unanswered_calls,
);
