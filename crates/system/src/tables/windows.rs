//! Tables over time.

use super::{View, share};
use crate::endpoints::EndpointEvent;
use crate::networks::NetworkEvent;
use crate::results::{Column, Table};
use crate::timer::Timer;
use syncline_core::{Peaks, Ps, Windows, stats};
use syncline_endpoint::Endpoint;
use syncline_endpoint::api::Occupancy;
use syncline_network::Network;

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

    fn means(self, busy: &[u128], per: u64) -> Column {
        Column::Float((0..self.count()).map(|w| self.mean(busy, w, per)).collect())
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
        let longest = all.max().unwrap_or(Ps(self.spec.output.window_ps));
        Grid { end: self.outcome.end.0, length: stats::covering(longest, self.outcome.end) }
    }

    /// Busy shares and levels.
    pub(super) fn windows(&self) -> Table {
        let occupancy = self.outcome.report.occupancy.as_ref();
        let usage = self.simulation.network().usage();
        let grid = self.grid();
        let m = u128::from(self.folded.multiplicity);
        // Links of a run that stops early may be booked beyond its end; a window is never more than full.
        let full = |c: Column| match c {
            Column::Float(v) => Column::Float(v.into_iter().map(|x| x.min(1.0)).collect()),
            other => other,
        };
        let links_of = |dim: usize| -> u64 {
            let of_dim = self.copies.iter().zip(0..).filter(|&(_, l)| usize::from(usage.class(l)) == dim);
            of_dim.map(|(n, _)| n).sum()
        };
        let mut all = vec![0u128; grid.count()];
        for dim in usage.windows() {
            all.iter_mut().zip(grid.busy(dim)).for_each(|(sum, busy)| *sum += busy * m);
        }
        let links: u64 = self.copies.iter().sum();
        let mut columns = vec![
            ("window", Column::Int((0..grid.count() as i64).collect())),
            ("start_ps", Column::Int(grid.starts().collect())),
            ("compute", full(grid.means(&grid.busy(&self.simulation.executor().compute_windows), 1))),
            ("links", full(grid.means(&all, links))),
        ];
        const DIMS: [&str; 8] =
            ["link_dim0", "link_dim1", "link_dim2", "link_dim3", "link_dim4", "link_dim5", "link_dim6", "link_dim7"];
        for (dim, windows) in usage.windows().iter().enumerate().take(DIMS.len()) {
            if links_of(dim) > 0 {
                let busy: Vec<u128> = grid.busy(windows).into_iter().map(|b| b * m).collect();
                columns.push((DIMS[dim], full(grid.means(&busy, links_of(dim)))));
            }
        }
        let held =
            |f: fn(&Occupancy) -> &Windows| grid.means(&occupancy.map(|o| grid.busy(f(o))).unwrap_or_default(), 1);
        columns.push(("ace_active", full(held(|o| &o.active))));
        columns.push(("sram_bytes", held(|o| &o.sram)));
        columns.push(("fsm_busy", held(|o| &o.fsms)));
        Table::new("windows", columns)
    }

    /// What each partition of the first NPU's SRAM holds; partitions are numbered as the summary lists them. No rows
    /// for endpoints without.
    pub(super) fn sram(&self) -> Table {
        let report = &self.outcome.report;
        let grid = self.grid();
        let occupancy = report.occupancy.as_ref();
        let parts: Vec<(Vec<u128>, Vec<u64>)> = occupancy
            .iter()
            .flat_map(|o| &o.partitions)
            .map(|(held, most)| (grid.busy(held), grid.most(most)))
            .collect();
        let rows: Vec<(usize, usize)> = (0..grid.count()).flat_map(|w| (0..parts.len()).map(move |p| (w, p))).collect();
        let ints = |f: &dyn Fn(usize, usize) -> u64| Column::Int(rows.iter().map(|&(w, p)| f(w, p) as i64).collect());
        Table::new(
            "sram",
            vec![
                ("window", ints(&|w, _| w as u64)),
                ("start_ps", ints(&|w, _| w as u64 * grid.length.0)),
                ("partition", ints(&|_, p| p as u64)),
                ("capacity_bytes", ints(&|_, p| report.partitions[p].1)),
                ("mean_bytes", Column::Float(rows.iter().map(|&(w, p)| grid.mean(&parts[p].0, w, 1)).collect())),
                ("peak_bytes", ints(&|w, p| parts[p].1.get(w).copied().unwrap_or(0))),
            ],
        )
    }
}
