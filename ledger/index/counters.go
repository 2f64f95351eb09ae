package index

import (
	"slices"

	"colophon/ledger/index/rowstore"
)

// counters are the counters of one ledger as its fold has them. They belong to the
// follower's goroutine.
type counters struct {
	readings
	places map[series]int
	own    []counter // what else there is to each
	// changed are those that the batch has changed.
	changed []int
	alike   alike  // what the batch has not counted yet
	key     []byte // scratch
}

// counter is one counter beside its series and value.
type counter struct {
	name    []byte // that of appendName
	changed bool
}

// readings are what counters came to, in the order in which they were first met. Where
// they are published they never change.
type readings struct {
	series []series
	values []uint64
}

func newCounters(of counts) counters {
	c := counters{places: make(map[series]int, len(of))}
	for s, n := range of {
		c.values[c.addSeries(s)] = n
	}
	return c
}

// addSeries adds a counter that begins with 0.
func (c *counters) addSeries(s series) (at int) {
	at = len(c.series)
	c.places[s] = at
	c.series, c.values = append(c.series, s), append(c.values, 0)
	c.own = append(c.own, counter{name: s.appendName(nil)})
	return at
}

// place is where a counter is. It is stored even if it stays 0.
func (c *counters) place(s series) int {
	at, known := c.places[s]
	if !known {
		at = c.addSeries(s)
		c.setAt(at, 0)
	}
	return at
}

// setAt sets a counter.
func (c *counters) setAt(at int, n uint64) {
	c.values[at] = n
	if !c.own[at].changed {
		c.own[at].changed = true
		c.changed = append(c.changed, at)
	}
}

// published is what the counters are now, to be published.
func (c *counters) published() readings {
	return readings{slices.Clip(c.series), slices.Clone(c.values)}
}

// counts are the counters by their series.
func (r *readings) counts() counts {
	all := make(counts, len(r.series))
	for i, s := range r.series {
		all[s] = r.values[i]
	}
	return all
}

// add adds to a counter.
func (c *counters) add(s series, n uint64) {
	at := c.place(s)
	c.setAt(at, c.values[at]+n)
}

// set sets a counter.
func (c *counters) set(s series, n uint64) { c.setAt(c.place(s), n) }

// write writes those that the batch has changed.
func (c *counters) write(rows *rowstore.Rows) {
	c.countAlike()
	for _, at := range c.changed {
		c.own[at].changed = false
		c.key = append(rows.Keys.Key(c.key[:0], counterDimension), c.own[at].name...)
		var value [rowstore.SeqBytes]byte
		rows.Set(c.key, rowstore.AppendSeq(value[:0], c.values[at]))
	}
	c.changed = c.changed[:0]
}
