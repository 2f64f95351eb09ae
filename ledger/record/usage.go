package record

import "colophon/ledger/record/pyjson"

// Bounds of the usage that stands in the event, which is never erased (spec: Usage): counts
// and durations, and no text beyond the names they go by. Usage that is anything
// else is content (spec: Content).
const (
	maxUsage      = 1024 // bytes in compact canonical JSON
	maxUsageName  = 64   // bytes of a member's name
	maxUsageDepth = 64   // brackets: the event, and receipts around it, must stay within what may be parsed
)

// decodeUsage reads usage, which no hash covers.
func (p *ipc) decodeUsage(o object) {
	usage := o.typed("usage", pyjson.Object, "an object")
	o.strictJSON("usage", usage)
	switch {
	case !usage.Given():
	case p.isFigures(usage):
		p.Usage = usage
	default:
		p.r.addContent("usage", usage.Raw())
	}
}

// isFigures says whether usage keeps within its bounds.
func (p *ipc) isFigures(usage pyjson.Value) bool {
	if !figures(usage, maxUsageDepth) {
		return false
	}
	p.r.scratch = usage.AppendCanonical(p.r.scratch[:0], pyjson.Compact)
	return len(p.r.scratch) <= maxUsage
}

// IsUsage reports whether canonical JSON is usage that stands in an event.
func IsUsage(v pyjson.Value) bool {
	return v.Kind() == pyjson.Object && figures(v, maxUsageDepth) && len(v.Raw()) <= maxUsage
}

// figures says whether v nests no deeper than so many brackets, all its names are
// short, and all that is neither object nor array in it is a number, a boolean or
// null.
func figures(v pyjson.Value, brackets int) bool {
	switch v.Kind() {
	case pyjson.String:
		return false
	case pyjson.Array, pyjson.Object:
		if brackets == 0 {
			return false
		}
	}
	for e := range v.Elements() {
		if !figures(e, brackets-1) {
			return false
		}
	}
	for name, m := range v.Members() {
		if len(name.Text()) > maxUsageName || !figures(m, brackets-1) {
			return false
		}
	}
	return true
}
