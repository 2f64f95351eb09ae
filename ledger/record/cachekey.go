package record

import (
	"bytes"
	"crypto/sha256"
)

// dimensionNames are the dimensions of the cache key in the order in which they
// are joined (1.4); the last is optional.
var dimensionNames = [...]string{
	"source_root", "question_hash", "model_profile_hash", "conversation_hash", "governance_policy_hash",
	"schema_version", "canonicalization_version", "chunking_version", "verifier_policy_hash",
}

// claimOnlyDimensions are hashes for which no record brings content.
var claimOnlyDimensions = [...]string{"source_root", "model_profile_hash"}

// decodeDimensions reads cache_dimensions; an empty object when not given.
func (g *runDAG) decodeDimensions(o object) object {
	v := o.member("cache_dimensions")
	if !v.Given() {
		return object{d: o.d}
	}
	dims := o.d.object(v, o.at("cache_dimensions"), dimensionNames[:]...)
	for i, name := range dimensionNames {
		if i < len(dimensionNames)-1 && !dims.member(name).Given() {
			dims.missing(name)
		}
		var value []byte
		if isVersion(name) {
			value, _ = dims.wtf(name)
		} else {
			value = dims.hash(name)
		}
		if value != nil {
			g.dimensions = append(g.dimensions, dimension{name, value})
		}
	}
	return dims
}

func isVersion(name string) bool {
	return name == "schema_version" || name == "canonicalization_version" || name == "chunking_version"
}

// cacheKey recomputes the cache key from the effective dimensions, which are the
// record's own hashes where those come from content, and checks its claim.
func (g *runDAG) cacheKey(dimensions object, claimed []byte) []byte {
	if len(g.dimensions) == 0 {
		return g.r.check("cache_key", claimed, nil)
	}
	for _, name := range claimOnlyDimensions {
		g.r.setHash(name, g.r.check(name, dimensions.hash(name), nil))
	}
	values := make([][]byte, len(g.dimensions))
	for i := range g.dimensions {
		d := &g.dimensions[i]
		if g.fromContent[d.name] {
			d.value = g.base[d.name]
		}
		values[i] = d.value
	}
	return g.r.check("cache_key", claimed, g.r.hex(sha256.Sum256(bytes.Join(values, []byte("|")))))
}
