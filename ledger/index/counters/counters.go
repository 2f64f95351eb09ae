package counters

import (
	"slices"

	"colophon/ledger/index/rowstore"
)

// Counters are the counters of one ledger as its fold has them. They belong to the
// follower's goroutine.
type Counters struct {
	Readings
	places map[Series]int
	own    []counter // what else there is to each
	// changed are those that the batch has changed.
	changed []int
	pending pending // what the batch has not counted yet
	key     []byte  // scratch
}

// counter is one counter beside its series and value.
type counter struct {
	name    []byte // that of appendName
	changed bool
}

// Readings are what counters came to, in the order in which they were first met. Where
// they are published they never change.
type Readings struct {
	series []Series
	values []uint64
}

func New(of Counts) Counters {
	c := Counters{places: make(map[Series]int, len(of))}
	for s, n := range of {
		c.values[c.addSeries(s)] = n
	}
	return c
}

// addSeries adds a counter that begins with 0.
func (c *Counters) addSeries(s Series) (at int) {
	at = len(c.series)
	c.places[s] = at
	c.series, c.values = append(c.series, s), append(c.values, 0)
	c.own = append(c.own, counter{name: s.AppendName(nil)})
	return at
}

// place is where a counter is. It is stored even if it stays 0.
func (c *Counters) place(s Series) int {
	at, known := c.places[s]
	if !known {
		at = c.addSeries(s)
		c.setAt(at, 0)
	}
	return at
}

// setAt sets a counter.
func (c *Counters) setAt(at int, n uint64) {
	c.values[at] = n
	if !c.own[at].changed {
		c.own[at].changed = true
		c.changed = append(c.changed, at)
	}
}

// Published is what the counters are now, to be published.
func (c *Counters) Published() Readings {
	return Readings{slices.Clip(c.series), slices.Clone(c.values)}
}

// Counts are the counters by their series.
func (r *Readings) Counts() Counts {
	all := make(Counts, len(r.series))
	for i, s := range r.series {
		all[s] = r.values[i]
	}
	return all
}

// Add adds to a counter.
func (c *Counters) Add(s Series, n uint64) {
	at := c.place(s)
	c.setAt(at, c.values[at]+n)
}

// Set sets a counter.
func (c *Counters) Set(s Series, n uint64) { c.setAt(c.place(s), n) }

// Write writes those that the batch has changed.
func (c *Counters) Write(rows *rowstore.Rows) {
	c.CountPending()
	for _, at := range c.changed {
		c.own[at].changed = false
		c.key = append(rows.Keys.Key(c.key[:0], counterDimension), c.own[at].name...)
		var value [rowstore.SeqBytes]byte
		rows.Set(c.key, rowstore.AppendSeq(value[:0], c.values[at]))
	}
	c.changed = c.changed[:0]
}
