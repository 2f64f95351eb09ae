package record

import (
	"bytes"
	"strconv"
)

// finish checks the claimed DAG and cache key against the effective nodes and
// names all effective hashes.
func (g *runDAG) finish(claimed []node, claimedRoot []byte, dimensions object, cacheKey []byte) {
	g.shape = shapeOf(g.nodes)
	if claimed != nil {
		g.checkStages(claimed)
	}
	root := g.r.check("root", claimedRoot, g.r.hex(dagRoot(g.nodes)))
	g.r.setHash("root", root)
	key := g.cacheKey(dimensions, cacheKey)
	for _, b := range baseHashes {
		if value := g.base[b.name]; value != nil {
			g.r.setHash(b.name, value)
		}
	}
	if key != nil {
		g.r.setHash("cache_key", key)
	}
}

// hashOf is the hash of the first stage of that name; nil if there is none.
func hashOf(nodes []node, stage string) []byte {
	for _, n := range nodes {
		if n.stage == stage && stage != "" {
			return n.hash
		}
	}
	return nil
}

// checkStages compares the claimed nodes with the effective ones, by name.
func (g *runDAG) checkStages(claimed []node) {
	effective := make(map[string]node, len(g.nodes))
	names := stageFields(g.nodes)
	for i, n := range g.nodes {
		effective[names[i]] = n
	}
	for i, field := range stageFields(claimed) {
		n, built := effective[field]
		switch {
		case !built:
			g.r.Checks = append(g.r.Checks, Check{Field: field, Result: Mismatch, Claimed: claimed[i].hash})
		case n.adopted && bytes.Equal(n.hash, claimed[i].hash):
			g.r.check(field, n.hash, nil) // one claim does not prove another
		default:
			g.r.check(field, claimed[i].hash, n.hash)
		}
		delete(effective, field)
	}
	for _, field := range names {
		switch n, left := effective[field]; {
		case left && n.adopted:
			g.r.check(field, n.hash, nil)
		case left:
			g.r.check(field, nil, n.hash)
		}
	}
}

// stageFields names the check of each node, no two alike. A stage that stands
// several times is told apart by the first of "#2", "#3", … that no other node
// has in its name.
func stageFields(nodes []node) []string {
	taken := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		taken[n.stage] = true
	}
	met := make(map[string]int, len(nodes)) // the number that a stage had last
	fields := make([]string, len(nodes))
	for i, n := range nodes {
		name := n.stage
		if met[n.stage]++; met[n.stage] > 1 {
			for taken[name] {
				name = n.stage + "#" + strconv.Itoa(met[n.stage])
				met[n.stage]++
			}
			met[n.stage]--
			taken[name] = true
		}
		fields[i] = stagePrefix + name
	}
	return fields
}
