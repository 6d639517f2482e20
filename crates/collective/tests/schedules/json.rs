//! What crosses the binding.

use crate::build::ring_all_reduce;
use serde_json::{Value, json};
use syncline_collective::request::verify_json;

fn request(change: impl FnOnce(&mut Value)) -> Result<Value, String> {
    let schedule = serde_json::to_value(ring_all_reduce(2, 1, 1, true)).unwrap();
    let mut request = json!({"root": null, "buffering": {"slots": 1}, "schedule": schedule});
    change(&mut request);
    let report = verify_json(&request.to_string()).map_err(|refusals| refusals[0].to_string())?;
    Ok(serde_json::from_str(&report).unwrap())
}

#[test]
fn a_report() {
    let report = request(|_| ()).unwrap();
    assert_eq!(
        report,
        json!({
            "name": "test", "collective": "allreduce", "in_place": true, "root": null, "root_inferred": false,
            "buffering": {"slots": 1}, "verified": true,
            "errors": [], "errors_omitted": 0, "flaws": [], "flaws_omitted": 0, "warnings": [], "warnings_omitted": 0,
            "counts": {
                "ranks": 2, "channels": 1, "thread_blocks": 2, "steps": 6, "nops": 0, "messages": 4, "chunks_sent": 4,
                "size_chunks": 2, "sent_per_byte_min": 1.0, "sent_per_byte_max": 1.0, "longest_path_steps": 3,
            },
        })
    );
}

#[test]
fn a_finding_names_its_place() {
    let report =
        request(|r| r["schedule"]["ranks"][1]["thread_blocks"][0]["steps"][2]["dst"]["offset"] = json!(2)).unwrap();
    assert_eq!(
        report["errors"],
        json!([{
            "kind": "bounds", "rank": 1, "thread_block": 0, "step": 2,
            "message": "chunk 2 is outside the input buffer of 2 chunks", "accepted": null,
        }])
    );
    assert_eq!((&report["verified"], &report["counts"]), (&json!(false), &json!(null)));
}

#[test]
fn what_is_left_out_has_a_default() {
    for (buffering, named) in [(json!("eager"), json!("eager")), (json!("rendezvous"), json!("rendezvous"))] {
        let report = request(|r| {
            r["buffering"] = buffering;
            let schedule = r["schedule"].as_object_mut().unwrap();
            schedule.retain(|_, v| !v.is_null());
            schedule.remove("protocol");
            schedule.remove("name");
        });
        assert_eq!(report.unwrap()["buffering"], named);
    }
}

#[test]
fn what_is_no_request_is_refused() {
    for (change, expected) in [
        ((|r| r["schedule"]["colour"] = json!(1)) as fn(&mut Value), "unknown field `colour`"),
        (|r| r["schedule"]["format"] = json!("plan"), "unknown variant `plan`"),
        (|r| r["schedule"]["version"] = json!(2), "version 2 of the format is not known; accepted: 1"),
        (|r| r["schedule"]["collective"] = json!("custom"), "a custom collective cannot be verified"),
        (|r| r["schedule"]["collective"] = json!("alltoallv"), "unknown variant `alltoallv`"),
        (|r| r["schedule"]["ranks"][0]["thread_blocks"][0]["steps"][0]["type"] = json!("x"), "unknown variant `x`"),
        (|r| r["schedule"]["ranks"][0]["id"] = json!(-1), "expected u32"),
        (|r| r["buffering"] = json!({"slots": 0}), "accepted: 1 or more, or rendezvous"),
        (|r| *r = json!([]), "invalid length 0"),
    ] {
        let refusal = request(change).unwrap_err();
        assert!(refusal.contains(expected), "{refusal}");
    }
}
