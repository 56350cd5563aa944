//! Attacks by a tenant that speaks AMQP itself.

mod alternate_exchange;
mod connections;
mod copies;
mod dead_letters;
mod exchange_binding;
mod foreign_job;
mod foreign_queues;
mod foreign_session;
mod foreign_tool_answer;
mod forged_user;
mod nested_headers;
mod odd_names;
mod oversized;
mod own_decisions;
mod planted_reply;
mod straight_keys;
mod tapped_replies;

super::on_fleet!("tenant":
    alternate_exchange, connections, copies, dead_letters, exchange_binding, foreign_job, foreign_queues, foreign_session,
    foreign_tool_answer, forged_user, nested_headers, odd_names, oversized, own_decisions, planted_reply,
    straight_keys, tapped_replies,
);
