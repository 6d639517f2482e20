//! Tables over time.

use super::{View, share};
use crate::endpoints::EndpointEvent;
use crate::networks::NetworkEvent;
use crate::timer::Timer;
use syncline_core::{Peaks, Ps, Windows};
use syncline_endpoint::Endpoint;
use syncline_endpoint::api::Occupancy;
use syncline_network::Network;

syncline_core::table! {
    /// A row for every window of time, all equally long but for the last.
    "windows" => Utilisation {
        /// Number of the window.
        window: Vec<i64> as Index,
        /// Time at which the window begins.
        start_ps: Vec<i64> as Picoseconds,
        /// Share of the window in which the compute engine of the first NPU was busy.
        compute: Vec<f64> as Share,
        /// Share of the window in which links were busy, the mean of all links.
        links: Vec<f64> as Share,
        /// Share of the window in which links of dimension or class 0 were busy, their mean.
        link_dim0: Option<Vec<f64>> as Share,
        /// Share of the window in which links of dimension or class 1 were busy, their mean.
        link_dim1: Option<Vec<f64>> as Share,
        /// Share of the window in which links of dimension or class 2 were busy, their mean.
        link_dim2: Option<Vec<f64>> as Share,
        /// Share of the window in which links of dimension or class 3 were busy, their mean.
        link_dim3: Option<Vec<f64>> as Share,
        /// Share of the window in which links of dimension or class 4 were busy, their mean.
        link_dim4: Option<Vec<f64>> as Share,
        /// Share of the window in which links of dimension or class 5 were busy, their mean.
        link_dim5: Option<Vec<f64>> as Share,
        /// Share of the window in which links of dimension or class 6 were busy, their mean.
        link_dim6: Option<Vec<f64>> as Share,
        /// Share of the window in which links of dimension or class 7 were busy, their mean.
        link_dim7: Option<Vec<f64>> as Share,
        /// Share of the window in which the ACE of the first NPU held a chunk; 0 for other endpoints.
        ace_active: Vec<f64> as Share,
        /// Bytes that the SRAM of the first NPU's ACE held, the mean of the window; 0 for other endpoints.
        sram_bytes: Vec<f64> as Bytes,
        /// State machines of the first NPU's ACE that were busy, the mean of the window; 0 for other endpoints.
        fsm_busy: Vec<f64> as Count,
    }
}

syncline_core::table! {
    /// A row for every window of time and partition of the SRAM of the first NPU's ACE; none for other endpoints.
    "sram" => Sram {
        /// Number of the window.
        window: Vec<i64> as Index,
        /// Time at which the window begins.
        start_ps: Vec<i64> as Picoseconds,
        /// Number of the partition, in the order of the summary.
        partition: Vec<i64> as Index,
        /// Size of the partition.
        capacity_bytes: Vec<i64> as Bytes,
        /// Bytes that the partition held, the mean of the window.
        mean_bytes: Vec<f64> as Bytes,
        /// Most bytes that the partition held in the window.
        peak_bytes: Vec<i64> as Bytes,
    }
}

/// Windows of a run that decides on them, at most, as long as they are short ([`syncline_core::Resolution`]).
const WINDOWS: usize = 400;

/// Windows of one length from the beginning of a run to its end.
#[derive(Clone, Copy)]
struct Grid {
    end: u64,
    length: Ps,
}

impl Grid {
    fn count(self) -> usize {
        self.end.div_ceil(self.length.0) as usize
    }

    fn starts(self) -> impl Iterator<Item = i64> {
        (0..self.count() as i64).map(move |w| w * self.length.0 as i64)
    }

    fn busy(self, windows: &Windows) -> Vec<u128> {
        windows.in_windows_of(self.length).busy().to_vec()
    }

    fn most(self, peaks: &Peaks) -> Vec<u64> {
        peaks.in_windows_of(self.length).most().to_vec()
    }

    /// The mean level of a window of which `busy` are the integrals, of one of `per`.
    fn mean(self, busy: &[u128], window: usize, per: u64) -> f64 {
        let span = (self.end - window as u64 * self.length.0).min(self.length.0);
        share(busy.get(window).copied().unwrap_or(0), u128::from(span) * u128::from(per))
    }

    fn means(self, busy: &[u128], per: u64) -> Vec<f64> {
        (0..self.count()).map(|w| self.mean(busy, w, per)).collect()
    }
}

impl<N, E> View<'_, N, E>
where
    N: Network,
    E: Endpoint<N>,
    N::Event: Timer<Layer = NetworkEvent>,
    E::Event: Timer<Layer = EndpointEvent>,
{
    fn grid(&self) -> Grid {
        let occupancy = self.outcome.report.occupancy.as_ref();
        let compute = &self.simulation.executor().compute_windows;
        let of_links = self.simulation.network().usage().windows();
        let levels = occupancy.iter().flat_map(|o| [&o.active, &o.sram, &o.fsms]);
        let parts = occupancy.iter().flat_map(|o| &o.partitions);
        let lengths = parts.flat_map(|(held, most)| [held.length(), most.length()]);
        let all = lengths.chain(levels.chain([compute]).chain(of_links).map(Windows::length));
        // A long run joins windows, whether or not anything is busy late in it; the tables have one length for all.
        let resolution = self.spec.output.resolution();
        let longest = all.max().unwrap_or(resolution.window);
        Grid { end: self.outcome.end.0, length: resolution.covering(longest, self.outcome.end, WINDOWS) }
    }

    /// Busy shares and levels.
    pub(super) fn windows(&self) -> Utilisation {
        let occupancy = self.outcome.report.occupancy.as_ref();
        let usage = self.simulation.network().usage();
        let grid = self.grid();
        let m = u128::from(self.folded.multiplicity);
        // Links of a run that stops early may be booked beyond its end; a window is never more than full.
        let full = |shares: Vec<f64>| shares.into_iter().map(|x| x.min(1.0)).collect::<Vec<f64>>();
        let links_of = |dim: usize| -> u64 {
            let of_dim = self.copies.iter().zip(0..).filter(|&(_, l)| usize::from(usage.class(l)) == dim);
            of_dim.map(|(n, _)| n).sum()
        };
        let mut all = vec![0u128; grid.count()];
        for dim in usage.windows() {
            all.iter_mut().zip(grid.busy(dim)).for_each(|(sum, busy)| *sum += busy * m);
        }
        let links: u64 = self.copies.iter().sum();
        let of_dim = |dim: usize| {
            let busy = grid.busy(usage.windows().get(dim).filter(|_| links_of(dim) > 0)?);
            let busy: Vec<u128> = busy.into_iter().map(|b| b * m).collect();
            Some(full(grid.means(&busy, links_of(dim))))
        };
        let held =
            |f: fn(&Occupancy) -> &Windows| grid.means(&occupancy.map(|o| grid.busy(f(o))).unwrap_or_default(), 1);
        Utilisation {
            window: (0..grid.count() as i64).collect(),
            start_ps: grid.starts().collect(),
            compute: full(grid.means(&grid.busy(&self.simulation.executor().compute_windows), 1)),
            links: full(grid.means(&all, links)),
            link_dim0: of_dim(0),
            link_dim1: of_dim(1),
            link_dim2: of_dim(2),
            link_dim3: of_dim(3),
            link_dim4: of_dim(4),
            link_dim5: of_dim(5),
            link_dim6: of_dim(6),
            link_dim7: of_dim(7),
            ace_active: full(held(|o| &o.active)),
            sram_bytes: held(|o| &o.sram),
            fsm_busy: held(|o| &o.fsms),
        }
    }

    /// What each partition of the first NPU's SRAM holds; partitions are numbered as the summary lists them. No rows
    /// for endpoints without.
    pub(super) fn sram(&self) -> Sram {
        let report = &self.outcome.report;
        let grid = self.grid();
        let occupancy = report.occupancy.as_ref();
        let parts: Vec<(Vec<u128>, Vec<u64>)> = occupancy
            .iter()
            .flat_map(|o| &o.partitions)
            .map(|(held, most)| (grid.busy(held), grid.most(most)))
            .collect();
        let rows: Vec<(usize, usize)> = (0..grid.count()).flat_map(|w| (0..parts.len()).map(move |p| (w, p))).collect();
        let ints = |f: &dyn Fn(usize, usize) -> u64| rows.iter().map(|&(w, p)| f(w, p) as i64).collect();
        Sram {
            window: ints(&|w, _| w as u64),
            start_ps: ints(&|w, _| w as u64 * grid.length.0),
            partition: ints(&|_, p| p as u64),
            capacity_bytes: ints(&|_, p| report.partitions[p].1),
            mean_bytes: rows.iter().map(|&(w, p)| grid.mean(&parts[p].0, w, 1)).collect(),
            peak_bytes: ints(&|w, p| parts[p].1.get(w).copied().unwrap_or(0)),
        }
    }
}
