//! What a job says about its session's checkpoints, and what an outcome says.

use thermae_schemas::{CheckpointWhen, ErrorCode, Job, SessionName, SessionRequest, SessionState};

#[test]
fn a_job_that_asks_for_checkpoints_says_so() {
    let text = r#"{"id": "a", "code": "1", "session": {"id": "s", "checkpoint": "after_job", "checkpoint_ttl_ms": 5,
        "restore": "other"}}"#;
    let job: Job = serde_json::from_str(text).unwrap();
    let session = job.session.clone().unwrap();
    assert_eq!((session.checkpoint, session.checkpoint_ttl_ms), (Some(CheckpointWhen::AfterJob), Some(5)));
    assert_eq!(session.restore.map(|name| name.to_string()).as_deref(), Some("other"));
    let plain = Job { session: Some(SessionRequest::new(SessionName::new("s").unwrap())), ..job };
    assert!(!serde_json::to_string(&plain).unwrap().contains("checkpoint"));
    for bad in [r#""checkpoint": "sometimes""#, r#""checkpoint_ttl_ms": -1"#, r#""restore": """#, r#""restored": "x""#]
    {
        let text = format!(r#"{{"id": "a", "code": "1", "session": {{"id": "s", {bad}}}}}"#);
        assert!(serde_json::from_str::<Job>(&text).is_err(), "{bad}");
    }
}

#[test]
fn an_outcome_has_no_checkpoint_unless_it_says_so() {
    let old: SessionState = serde_json::from_str(r#"{"id": "s", "fresh": true, "alive": true}"#).unwrap();
    assert_eq!(old, SessionState::new(SessionName::new("s").unwrap(), true, true, 0));
    let new = r#"{"id": "s", "fresh": true, "alive": true, "checkpoint_left_out": 2,
        "checkpoint_error": {"code": "checkpoint_failed", "message": "no", "safe_to_retry": false}}"#;
    let new: SessionState = serde_json::from_str(new).unwrap();
    assert!(!new.checkpointed && new.checkpoint_left_out == 2);
    assert_eq!(new.checkpoint_error.unwrap().code, ErrorCode::CheckpointFailed);
}
