//! Several jobs on disjoint NPUs of a fabric.

use super::{Demand, Job, Sending, job};
use crate::errors::RunError;
use crate::spec::{GroupsSpec, JobSpec, PlacedJobSpec, Spec};
use syncline_core::{NodeId, Refusal};
use syncline_workload::graph::{ClassId, FamilyId, GraphSource, Node, Order, Work};
use syncline_workload::{Layer, PointToPoint};

/// A job among others: its numbers of classes, families and layers follow those of the jobs before it.
struct Part {
    name: String,
    source: Box<dyn GraphSource + Send>,
    iterations: u32,
    first_class: u16,
    first_family: u8,
    first_layer: u32,
}

/// The graphs of several jobs. Behind their classes is one of NPUs that are of no job.
struct Several {
    parts: Vec<Part>,
    layers: Vec<Layer>,
    classes: u16,
}

impl Several {
    /// The job of a class, and the class as that numbers it.
    fn part(&self, class: ClassId) -> Option<(usize, ClassId)> {
        let at = self.parts.iter().rposition(|part| part.first_class <= class.0)?;
        (class.0 < self.classes).then(|| (at, ClassId(class.0 - self.parts[at].first_class)))
    }
}

impl GraphSource for Several {
    fn layers(&self) -> &[Layer] {
        &self.layers
    }

    fn describes(&self, layer: u32) -> bool {
        let part = self.parts.iter().rfind(|part| part.first_layer <= layer);
        part.is_some_and(|part| part.source.describes(layer - part.first_layer))
    }

    fn classes(&self) -> u16 {
        self.classes + 1
    }

    fn class_name(&self, class: ClassId) -> String {
        match self.part(class) {
            Some((at, own)) if self.parts[at].source.classes() > 1 => {
                format!("{} {}", self.parts[at].name, self.parts[at].source.class_name(own))
            }
            Some((at, _)) => self.parts[at].name.clone(),
            None => "idle".into(),
        }
    }

    fn streams(&self, class: ClassId) -> &[Order] {
        self.part(class).map_or(&[Order::InOrder], |(at, own)| self.parts[at].source.streams(own))
    }

    fn iteration(&mut self, class: ClassId, iteration: u32) -> Vec<Node> {
        let Some((at, own)) = self.part(class) else { return Vec::new() };
        let Part { source, iterations, first_family, first_layer, .. } = &mut self.parts[at];
        if iteration >= *iterations {
            return Vec::new();
        }
        let mut nodes = source.iteration(own, iteration);
        for node in &mut nodes {
            node.layer += *first_layer;
            match &mut node.work {
                Work::Compute(_) => {}
                Work::Collective { family, .. } | Work::Exchange { family, .. } => family.0 += *first_family,
                Work::Send(message) | Work::Recv(message) => message.family.0 += *first_family,
            }
        }
        nodes
    }
}

/// The description of one of several jobs by itself.
fn alone(spec: &Spec, placed: &PlacedJobSpec) -> Spec {
    let mut alone = spec.clone();
    alone.job = (*placed.job).clone();
    alone.collectives = placed.collectives.clone();
    alone.families = placed.families.clone();
    alone.groups = Some(GroupsSpec { members: vec![placed.npus.clone()], grid: placed.grid.clone(), along: None });
    alone
}

/// Several jobs as one.
///
/// # Errors
/// [`RunError::Spec`] if one of them is none.
pub(super) fn several(spec: &Spec, placed: &[PlacedJobSpec], drain: bool) -> Result<Job, RunError> {
    let mut parts: Vec<Part> = Vec::new();
    let mut layers: Vec<Layer> = Vec::new();
    let (mut classes, mut uses, mut sends, mut demands) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut iterations, mut kernels, mut compute_ps, mut outside) = (0, 0, 0.0f64, 0);
    let mut models = None;
    let families = placed.iter().map(|placed| placed.families.len()).sum::<usize>();
    let mut first_family = 0;
    for (number, placed) in placed.iter().enumerate() {
        if matches!(*placed.job, JobSpec::Collective { .. } | JobSpec::Jobs { .. }) {
            let refusal = Refusal::of(&format!("job.jobs.{number}.job"), "a job among others trains");
            return Err(refusal.accepting("training, or a graph").into());
        }
        let of = job(&alone(spec, placed))?;
        let (first_class, first_layer) = (classes.len() as u16, layers.len() as u32);
        let own: Vec<FamilyId> = (0..placed.families.len()).map(|f| FamilyId((first_family + f) as u8)).collect();
        for class in 0..of.source.classes() {
            let npus = match of.classes.get(usize::from(class)) {
                Some(npus) => npus.clone(),
                None if of.classes.is_empty() => placed.npus.iter().map(|&npu| NodeId(npu)).collect(),
                None => Vec::new(),
            };
            classes.push(npus);
            uses.push(match of.uses.get(usize::from(class)) {
                Some(uses) => uses.iter().map(|family| own[family.index()]).collect(),
                None => own.clone(),
            });
            let mut asked = vec![Demand { iterations: of.iterations, ..Demand::default() }; families];
            for (demand, family) in of.demands.get(usize::from(class)).into_iter().flatten().zip(&own) {
                asked[family.index()] = demand.clone();
            }
            demands.push(asked);
        }
        sends.extend(of.sends.iter().map(|send| Sending {
            class: ClassId(send.class.0 + first_class),
            from: send.from,
            message: PointToPoint { family: own[send.message.family.index()], ..send.message },
        }));
        let named = |layer: &Layer| Layer { name: format!("{}: {}", placed.name, layer.name), ..layer.clone() };
        layers.extend(of.source.layers().iter().map(named));
        iterations = iterations.max(of.iterations);
        kernels = kernels.max(of.kernels);
        compute_ps = compute_ps.max(of.compute_ps);
        outside += of.outside;
        models.get_or_insert((of.npu, of.background));
        let (name, source) = (placed.name.clone(), of.source);
        let first = first_family as u8; // families are few, which is checked where they are counted
        parts.push(Part { name, source, iterations: of.iterations, first_class, first_family: first, first_layer });
        first_family += placed.families.len();
    }
    let Some((npu, background)) = models else {
        return Err(Refusal::of("job.jobs", "there is no job").accepting("at least one").into());
    };
    let source = Box::new(Several { parts, layers, classes: classes.len() as u16 });
    Ok(Job { source, iterations, drain, npu, background, demands, classes, uses, sends, kernels, compute_ps, outside })
}
