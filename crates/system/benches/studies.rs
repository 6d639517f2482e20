//! Whole simulations at full fidelity, one core: `cargo bench -p syncline-system`.
//!
//! The virtual result of each is checked, the wall time reported.

use syncline_system::spec::Spec;

/// Two iterations of ResNet-50 with FP16 gradients on 4x8x4 with ACE: 118 million packet-hops.
const ACE_RESNET50: &str = r#"{
  "fabric": {"kind": "product", "dims": [
    {"block": "ring", "size": 4, "rate_bytes_per_s": 188000000000, "latency_ps": 72290, "links": 1},
    {"block": "ring", "size": 8, "rate_bytes_per_s": 23500000000, "latency_ps": 401607, "links": 1},
    {"block": "ring", "size": 4, "rate_bytes_per_s": 23500000000, "latency_ps": 401607, "links": 1}
  ]},
  "network": {"backend": "packet", "packet_bytes": 256, "buffer_packets": null, "deadlock_rule": "bubble", "trains": true},
  "endpoint": {
    "kind": "ace", "memory_bytes_per_s": 128000000000, "bus_bytes_per_s": 500000000000, "charge_writes": false,
    "clock_hz": 1245000000, "sram_bytes": 4194304, "sram_banks": 4, "port_bytes_per_cycle": 64, "alus": 4,
    "fsms": 16, "message_bytes": 8192, "port_buffer_bytes": 4096
  },
  "collectives": {
    "algorithm": "ace-4-phase", "chunking": {"by": "size", "bytes": 65536}, "inflight": 16,
    "scheduling": "lifo", "lanes": "alternate", "element_bytes": 2
  },
  "job": {
    "kind": "training",
    "workload": {"source": "model", "name": "resnet50", "batch": 32, "element_bytes": 2, "kernels": "all"},
    "iterations": 2, "overlap": true, "drain": true, "update": false,
    "compute": {"flops_per_s": 120e12, "memory_bytes_per_s": 772e9, "scale": 0.069}
  },
  "output": {"window_ps": 803213, "trace_npus": [], "trace_limit": 0}
}"#;

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn main() {
    let spec: Spec = serde_json::from_str(ACE_RESNET50).expect("the description above");
    let start = std::time::Instant::now();
    let summary = syncline_system::run_spec(&spec, None).expect("it runs to its end").summary;
    let s = start.elapsed().as_secs_f64();
    let sent_per_npu = 2.3125 * 2.0 * 51_114_064.0; // VI-A's count for 4x8x4, two iterations
    let error = summary.endpoint.sent_bytes as f64 / 128.0 / sent_per_npu - 1.0;
    assert!(error.abs() < 1e-3, "sent {} bytes", summary.endpoint.sent_bytes);
    println!(
        "ACE, ResNet-50, 128 NPUs, two iterations, drained: {s:.1} s, {:.1} million packet-hops at {:.2} million per second ({} ps simulated)",
        summary.network.packet_hops as f64 / 1e6,
        summary.network.packet_hops as f64 / s / 1e6,
        summary.total_ps,
    );
}
