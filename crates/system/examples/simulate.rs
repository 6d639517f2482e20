//! Runs the simulation that a JSON file describes and prints its summary: for profiling the engine
//! without Python. `cargo run --release -p syncline-system --example simulate -- SPEC.json`

use std::process::ExitCode;
use std::sync::Arc;

#[expect(clippy::disallowed_methods, reason = "reports the wall time of the run")]
fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: simulate SPEC.json");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{path}: {error}");
            return ExitCode::from(2);
        }
    };
    let start = std::time::Instant::now();
    match syncline_system::run(&text, &Arc::default()) {
        Ok(results) => {
            let s = start.elapsed().as_secs_f64();
            let summary = serde_json::to_string_pretty(&results.summary).unwrap_or_default();
            println!("{summary}");
            for table in results.tables.iter().filter(|t| t.name == "phases") {
                for (column, values) in &table.columns {
                    eprintln!("{:>10}: {values:?}", column.name);
                }
            }
            let rate = |n: u64| n as f64 / s / 1e6;
            eprintln!(
                "{s:.2} s, {:.2} million events/s, {:.2} million packet-hops/s",
                rate(results.summary.events),
                rate(results.summary.network.packet_hops)
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
