package record

import (
	"bytes"

	"colophon/ledger/record/rules"
)

// finish checks the claimed DAG and cache key against the effective nodes and
// names all effective hashes.
func (g *runDAG) finish(claimed []node, claimedRoot []byte, dimensions object, cacheKey []byte) {
	stages := stageNames(g.nodes)
	g.Shape, g.Preflight = []byte(rules.Shape(stages)), []byte(rules.PreflightOf(stages))
	for _, n := range g.nodes {
		g.Stages = append(g.Stages, StageField{[]byte(n.stage), n.hash})
	}
	if claimed != nil {
		g.checkStages(claimed)
	}
	g.Root = g.r.check("root", claimedRoot, g.r.hex(runRoot(g.nodes)))
	g.CacheKey = g.cacheKey(dimensions, cacheKey)
	for _, b := range rules.BaseHashes {
		*g.Hash(b.Name) = g.base[b.Name]
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
	names := rules.StageChecks(stageNames(g.nodes))
	for i, n := range g.nodes {
		effective[names[i]] = n
	}
	for i, field := range rules.StageChecks(stageNames(claimed)) {
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
