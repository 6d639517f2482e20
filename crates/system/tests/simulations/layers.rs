//! What the table of layers says, against the headline.

use crate::contention::contended;
use crate::hybrid::{background, dlrm};
use crate::support::{baseline, run};
use crate::training::{column, resnet, training};
use syncline_system::Values;
use syncline_system::spec::{JobSpec, Spec};

/// The layers' compute and exposed times add up to the headline, updates, stragglers and contention included.
#[test]
fn layers_add_up_to_the_headline() {
    let mut straggling = resnet(2);
    if let JobSpec::Training { stragglers, .. } = &mut straggling.job {
        stragglers.push((3, 1.7));
    }
    let shared = Spec { endpoint: contended(baseline()), ..resnet(2) };
    let specs = [resnet(3), training(true, false, 3), training(false, true, 2), straggling, shared, dlrm()];
    for spec in specs.into_iter().chain([background(30e9)]) {
        let results = run(&spec);
        let sum = |name| match column(&results, "layers", name) {
            Values::Int(values) => values.iter().sum::<i64>() as u64,
            _ => panic!("{name} is not a number"),
        };
        let s = &results.summary;
        assert_eq!((sum("compute_ps"), sum("exposed_ps")), (s.compute_ps, s.exposed_ps), "{spec:?}");
    }
}
