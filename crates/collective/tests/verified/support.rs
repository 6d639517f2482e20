//! Plans to be verified.

use syncline_collective::verify::{Buffering, Findings, Kind as Sort, Verifier};
use syncline_collective::{Algorithm, Axis, Composition, Kind, Plan, PlanRequest, Program, Rank};

pub const COMPOSITIONS: [Composition; 3] =
    [Composition::PerDimension, Composition::LocalFirst, Composition::AllScattered];

/// All pairs of an algorithm and a collective that it has a program for.
pub fn programs(slices: u32) -> impl Iterator<Item = (Algorithm, Kind)> {
    let pairs = Algorithm::all(slices).into_iter().flat_map(|a| Kind::ALL.map(|k| (a, k)));
    pairs.filter(|(algorithm, kind)| algorithm.supports(*kind))
}

/// A plan on one dimension.
pub fn line(kind: Kind, algorithm: Algorithm, ranks: u32, root: u32) -> Plan {
    let axes = [Axis { size: ranks, algorithm }];
    let composition = Composition::PerDimension;
    Plan::new(PlanRequest { kind, composition, axes: &axes, root: Rank(root), order: None })
        .expect("a program that exists")
}

/// What sort of finding came first, if anything was found.
pub fn sort(verdict: &Result<(), Findings>) -> Option<Sort> {
    verdict.as_ref().err().map(|findings| findings.list[0].kind)
}

pub fn verify_line(
    (algorithm, kind): (Algorithm, Kind),
    ranks: u32,
    root: u32,
    elements: u64,
    up: bool,
    buffering: Buffering,
) -> Result<(), Findings> {
    let plan = line(kind, algorithm, ranks, root);
    Verifier::new(&plan, &[ranks], elements, up, buffering).verify()
}

/// Verifies a program in place of the one of a plan on one dimension.
pub fn verdict(plan: &Plan, program: Program, elements: u64, buffering: Buffering) -> Result<(), Findings> {
    let sizes = [program.ranks()];
    let mut verifier = Verifier::new(plan, &sizes, elements, true, buffering);
    verifier.programs = vec![program];
    verifier.verify()
}
