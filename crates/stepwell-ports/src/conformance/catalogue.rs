//! Rules of agents, tools and nodes.

use stepwell_core::TimestampMs;

use super::fixtures::Shared;
use crate::store::{AgentRecord, NODES_KEPT, ToolRecord};

fn record(name: &str, version: u32, definition: &str, created_at: u64) -> AgentRecord {
    AgentRecord {
        name: name.into(),
        version,
        definition: definition.into(),
        created_at: TimestampMs(created_at),
    }
}

/// The same text keeps its version; going back to an older text is a change, too.
pub async fn a_definition_that_changed_is_a_new_version(store: Shared) {
    let puts = [
        ("mover", "a = 1", 10, record("mover", 1, "a = 1", 10)),
        ("mover", "a = 1", 11, record("mover", 1, "a = 1", 10)),
        ("mover", "a = 2", 12, record("mover", 2, "a = 2", 12)),
        ("baker", "x\0y", 13, record("baker", 1, "x\0y", 13)),
        ("mover", "a = 1", 14, record("mover", 3, "a = 1", 14)),
    ];
    for (name, definition, now, expected) in puts {
        let stored = store.put_agent(name, definition, TimestampMs(now)).await.expect("is stored");
        assert_eq!(stored, expected);
    }
    let agent = async |version| store.agent("mover", version).await.expect("readable");
    assert_eq!(agent(None).await, Some(record("mover", 3, "a = 1", 14)));
    assert_eq!(agent(Some(2)).await, Some(record("mover", 2, "a = 2", 12)));
    assert_eq!(agent(Some(4)).await, None);
    let agents = store.agents().await.expect("readable");
    assert_eq!(agents, [record("baker", 1, "x\0y", 13), record("mover", 3, "a = 1", 14)]);
}

/// The last registration of a name counts.
pub async fn tools_are_remembered(store: Shared) {
    let tool = |name: &str, worker: &str, seen_at| ToolRecord {
        name: name.into(),
        spec: format!(r#"{{"name":"{name}"}}"#),
        worker: worker.into(),
        seen_at: TimestampMs(seen_at),
    };
    let put = async |tools: Vec<ToolRecord>| store.put_tools(tools).await.expect("is stored");
    put(vec![tool("shell", "w1", 1), tool("find", "w1", 1)]).await;
    put(Vec::new()).await;
    put(vec![tool("shell", "w2", 2)]).await;
    let tools = store.tools().await.expect("readable");
    assert_eq!(tools, [tool("find", "w1", 1), tool("shell", "w2", 2)]);
}

/// Signs of life are replaced, and the oldest nodes are forgotten one day.
pub async fn nodes_are_remembered_the_latest_ones(store: Shared) {
    let beat = async |node: &str, at: u64| {
        store.beat(node, TimestampMs(at)).await.expect("is stored");
    };
    beat("b", 1).await;
    beat("a", 2).await;
    beat("b", 3).await;
    let nodes = store.nodes().await.expect("readable");
    let nodes: Vec<_> = nodes.iter().map(|it| (it.node.as_str(), it.seen_at.0)).collect();
    assert_eq!(nodes, [("a", 2), ("b", 3)]);
    for n in 0..NODES_KEPT as u64 {
        beat(&format!("node-{n:05}"), 10 + n).await;
    }
    let nodes = store.nodes().await.expect("readable");
    assert_eq!(nodes.len(), NODES_KEPT);
    assert_eq!(nodes[0].node, "node-00000");
}
