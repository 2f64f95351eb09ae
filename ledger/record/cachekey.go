package record

import (
	"colophon/ledger/record/rules"
)

// decodeDimensions reads cache_dimensions; an empty object when not given.
func (g *runDAG) decodeDimensions(o object) object {
	v := o.member("cache_dimensions")
	if !v.Given() {
		return object{d: o.d}
	}
	dims := o.d.object(v, o.at("cache_dimensions"), rules.Dimensions[:]...)
	for i, name := range rules.Dimensions {
		if i < len(rules.Dimensions)-1 && !dims.member(name).Given() {
			dims.missing(name)
		}
		var value []byte
		if rules.IsVersion(name) {
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

// cacheKey recomputes the cache key from the effective dimensions, which are the
// record's own hashes where those come from content, and checks its claim.
func (g *runDAG) cacheKey(dimensions object, claimed []byte) []byte {
	if len(g.dimensions) == 0 {
		return g.r.check("cache_key", claimed, nil)
	}
	for _, name := range rules.ClaimedDimensions {
		*g.Hash(name) = g.r.check(name, dimensions.hash(name), nil)
	}
	values := make([][]byte, len(g.dimensions))
	for i, d := range g.dimensions {
		if g.fromContent[d.name] {
			d.value = g.base[d.name]
		}
		values[i] = d.value
		g.Dimensions = append(g.Dimensions, StageField{[]byte(d.name), eventText(d.value)})
	}
	return g.r.check("cache_key", claimed, g.r.hex(rules.CacheKey(values)))
}

// dimension is one dimension of the cache key.
type dimension struct {
	name  string
	value []byte
}
