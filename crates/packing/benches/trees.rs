//! Rates and trees of machines and clusters, one core: `cargo bench -p syncline-packing`.
//!
//! Rates and numbers of trees are behaviour and are printed; rates are checked against closed forms. Wall time is cost.
//! A published time beside ours, of another kind of solution on another computer: TACOS (arXiv 2304.05301) says that it
//! makes an all-reduce for 512 NPUs of a heterogeneous system in 6.09 minutes; it does not prove how good that is.

use syncline_packing::symmetry::Symmetry;
use syncline_packing::{Arc, Network, Ratio, exact, orbits, orientation, rate, switches};

fn both(links: &[(u32, u32, u64)]) -> Vec<Arc> {
    links.iter().flat_map(|&(a, b, c)| [Arc::new(a, b, c), Arc::new(b, a, c)]).collect()
}

/// The NVLinks of a DGX-1V.
fn dgx1v() -> Network {
    let around = |ring: [u32; 8], c| (0..8).map(move |i| (ring[i], ring[(i + 1) % 8], c));
    let links: Vec<_> = around([0, 3, 2, 1, 5, 6, 7, 4], 2).chain(around([0, 1, 3, 7, 5, 4, 6, 2], 1)).collect();
    Network::new(8, 8, both(&links)).expect("a network")
}

/// So many GPUs on a switch.
fn star(gpus: u32) -> Network {
    let links: Vec<_> = (0..gpus).map(|gpu| (gpu, gpus, 6)).collect();
    Network::new(gpus + 1, gpus, both(&links)).expect("a network")
}

/// Servers of eight GPUs on a switch of 9 units each, every GPU with a card of 1 unit on the rail of its place.
fn servers(count: u32) -> Network {
    let gpus = 8 * count;
    let mut links = Vec::new();
    for gpu in 0..gpus {
        links.push((gpu, gpus + gpu / 8, 9));
        links.push((gpu, gpus + count + gpu % 8, 1));
    }
    Network::new(gpus + count + 8, gpus, both(&links)).expect("a network")
}

/// Racks of 72 GPUs on a switch of 18 units each, every GPU with a card of 1 unit on the rail of its place.
fn racks(count: u32) -> Network {
    let gpus = 72 * count;
    let links: Vec<_> =
        (0..gpus).flat_map(|gpu| [(gpu, gpus + gpu / 72, 18), (gpu, gpus + count + gpu % 72, 1)]).collect();
    Network::new(gpus + count + 72, gpus, both(&links)).expect("a network")
}

/// Has `work` done, and says how long it took.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let begin = std::time::Instant::now();
    let done = work();
    (done, begin.elapsed().as_secs_f64())
}

fn report(name: &str, expected: Ratio, reached: Ratio, trees: usize, seconds: f64) {
    assert_eq!(reached, expected, "{name}");
    println!("{name:40} {:>9.4} {trees:>6} trees {:>10.3} ms", reached.num as f64 / reached.den as f64, seconds * 1e3);
}

fn broadcast(name: &str, network: &Network, expected: u64) {
    let (trees, seconds) = timed(|| {
        let best = rate::from_root(network, 0).expect("several nodes").rate.num;
        let split = switches::removed(network, &[(0, best)]);
        let trees = exact::trees(&split.network, &[(0, best * split.factor)]).expect("they exist");
        let weight: u64 = trees.iter().map(|tree| tree.weight).sum();
        (trees.len(), Ratio::new(weight, split.factor))
    });
    report(&format!("{name}, broadcast"), Ratio::whole(expected), trees.1, trees.0, seconds);
}

fn all_gather(name: &str, network: &Network, expected: Ratio) {
    let (trees, seconds) = timed(|| {
        let Ratio { num, den } = rate::from_all(network).expect("countable").expect("several nodes").rate;
        let roots: Vec<_> = (0..network.terminals).map(|root| (root, num)).collect();
        let split = switches::removed(&network.times(den).expect("countable"), &roots);
        let roots: Vec<_> = roots.iter().map(|&(root, weight)| (root, weight * split.factor)).collect();
        let trees = exact::trees(&split.network, &roots).expect("they exist");
        let weight: u64 = trees.iter().map(|tree| tree.weight).sum();
        (trees.len(), Ratio::new(weight, split.factor * den))
    });
    report(&format!("{name}, all-gather"), expected, trees.1, trees.0, seconds);
}

/// Trees of one root, whose images are those of all; `rate` is that of the whole vector.
fn alike(name: &str, network: &Network, rate: Ratio, both_ways: bool) {
    let (found, seconds) = timed(|| {
        let symmetry = Symmetry::of(network).expect("all GPUs are alike");
        let limit = rate::from_all_alike(network, &symmetry.roots).expect("countable").expect("several nodes").rate;
        let halves = if both_ways { 2 } else { 1 };
        let all = Ratio::new(limit.num * u64::from(network.terminals), limit.den * halves);
        orbits::trees(network, &symmetry, both_ways, all).expect("they exist")
    });
    let kind = if both_ways { "all-reduce" } else { "all-gather" };
    report(&format!("{name}, {kind}, each root"), rate, found.rate, found.trees.len(), seconds);
}

fn main() {
    broadcast("DGX-1V", &dgx1v(), 6);
    all_gather("DGX-1V", &dgx1v(), Ratio::new(48, 7));
    let (both_ways, seconds) = timed(|| orientation::trees(&dgx1v()).expect("countable").expect("several nodes"));
    report("DGX-1V, all-reduce", Ratio::new(24, 7), both_ways.rate, both_ways.trees.len(), seconds);
    for gpus in [16, 72] {
        broadcast(&format!("{gpus} GPUs on a switch"), &star(gpus), 6);
        all_gather(
            &format!("{gpus} GPUs on a switch"),
            &star(gpus),
            Ratio::new(6 * u64::from(gpus), u64::from(gpus) - 1),
        );
    }
    for count in [2, 8, 32] {
        let name = format!("{count} servers of 8 GPUs");
        // What enters a server, and what is outside of it, limit all-gathers of more than two.
        let gpus = 8 * u64::from(count);
        let (per_gpu, per_server) = (Ratio::new(10, gpus - 1), Ratio::new(8, gpus - 8));
        let Ratio { num, den } = per_gpu.min(per_server);
        broadcast(&name, &servers(count), 8);
        // Without symmetries, those of 256 GPUs take half a minute.
        if count < 32 {
            all_gather(&name, &servers(count), Ratio::new(num * gpus, den));
        }
    }
    for count in [32, 128] {
        let (name, gpus) = (format!("{count} servers of 8 GPUs"), 8 * u64::from(count));
        if count == 128 {
            broadcast(&name, &servers(count), 8);
        }
        alike(&name, &servers(count), Ratio::new(8 * gpus, gpus - 8), false);
        alike(&name, &servers(count), Ratio::new(4 * gpus, gpus - 8), true);
    }
    // A broadcast is left out, since it takes minutes.
    alike("15 racks of 72 GPUs", &racks(15), Ratio::new(19 * 1080, 1079), false);
}
