//! What the library exports, and the layouts of what is passed.

use crate::support::{compile, has_compiler, here, library};
use std::collections::BTreeSet;
use std::fs;
use std::mem::{offset_of, size_of};
use std::process::Command;
use syncline_nccl::abi::{Config, SimInfo, UniqueIdBytes};

/// The names of a committed list.
pub fn listed(file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(here().join("exports").join(file)).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn exactly_the_listed_functions_are_exported() {
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output() else {
        eprintln!("there is no nm: nothing is tested");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> = text.lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
    let (stated, newer, own) = (listed("nccl-2.21.5.txt"), listed("newer.txt"), listed("own.txt"));
    assert_eq!(stated.len(), 62);
    assert_eq!(exported, &(&stated | &newer) | &own);
    // Each of NCCL's under both names.
    let of_nccl = &stated | &newer;
    assert!(of_nccl.iter().filter(|name| !name.starts_with('p')).all(|name| exported.contains(&format!("p{name}"))));
}

#[test]
fn layouts_are_those_of_a_c_compiler() {
    if !has_compiler() {
        return;
    }
    let ours = [
        ("ncclUniqueId", size_of::<UniqueIdBytes>()),
        ("ncclConfig_t", size_of::<Config>()),
        ("ncclConfig_t.size", offset_of!(Config, size)),
        ("ncclConfig_t.magic", offset_of!(Config, magic)),
        ("ncclConfig_t.version", offset_of!(Config, version)),
        ("ncclConfig_t.blocking", offset_of!(Config, blocking)),
        ("ncclConfig_t.cgaClusterSize", offset_of!(Config, cga_cluster_size)),
        ("ncclConfig_t.minCTAs", offset_of!(Config, min_ctas)),
        ("ncclConfig_t.maxCTAs", offset_of!(Config, max_ctas)),
        ("ncclConfig_t.netName", offset_of!(Config, net_name)),
        ("ncclConfig_t.splitShare", offset_of!(Config, split_share)),
        ("ncclSimInfo_t", size_of::<SimInfo>()),
        ("ncclSimInfo_t.size", offset_of!(SimInfo, size)),
        ("ncclSimInfo_t.magic", offset_of!(SimInfo, magic)),
        ("ncclSimInfo_t.version", offset_of!(SimInfo, version)),
        ("ncclSimInfo_t.estimatedTime", offset_of!(SimInfo, estimated_time)),
    ];
    let output = Command::new(compile("layout", &["layout.c"])).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected: String = ours.iter().map(|(name, number)| format!("{name} {number}\n")).collect();
    assert_eq!(printed, expected);
    // Those of NCCL 2.21.5, compiled with its own header.
    assert_eq!((size_of::<UniqueIdBytes>(), size_of::<Config>(), size_of::<SimInfo>()), (128, 48, 24));
}
