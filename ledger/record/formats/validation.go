package formats

import (
	"bytes"
	"strings"

	"colophon/ledger/record"
	"colophon/ledger/record/fields"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// validationCache converts the validation cache of a story, which is an object that maps path IDs
// to entries.
func validationCache(v pyjson.Value, o Options) []Conversion {
	var conversions []Conversion
	about := Conversion{FailureReason: "the member describes the file, not a path"}
	for name, value := range v.Members() {
		id := string(name.Text())
		if !isObject(value) {
			about.MemberOutcomes = append(about.MemberOutcomes, MemberOutcome{pointerTo(id), pointerTo(id), OutcomeLeftOut, about.FailureReason})
			continue
		}
		conversions = append(conversions, cachedPath(id, value, o))
	}
	if len(about.MemberOutcomes) > 0 {
		conversions = append(conversions, about)
	}
	return conversions
}

// validationMembers contains the members of an entry that describe the validation. They can change
// while the record stays the same.
var validationMembers = map[string]bool{"validated": true, "validated_at": true, "validated_by": true}

// cachedPath converts the entry for one path. id is the name of the entry.
func cachedPath(id string, v pyjson.Value, o Options) Conversion {
	project := o.Project
	if own := v.Member("project"); isName(own) {
		project = string(own.Text())
	}
	d := newDraft(record.KindPathFingerprint, key(ValidationCache, v, validationMembers, id, project), o)
	d.conversion.Name, d.prefix, d.pattern = id, pointerTo(id), "/*"
	route, ok := routeOf(v.Member("route"))
	switch {
	case project == "":
		d.note("", "", OutcomeLeftOut, "no record was created")
		return d.leave("the entry does not name its project; specify one with project")
	case !ok:
		d.note("", "", OutcomeLeftOut, "no record was created")
		return d.leave("the entry has no valid route")
	}
	d.text("project", []byte(project))
	d.w.AddTexts("route", route)
	d.pathID(id, v.Member("route_hash"), route)
	d.validation(v, route)
	isFingerprint := fingerprintsOf(v.Member("hash_version"))
	for name, value := range v.Members() {
		m := member{string(name.Text()), value}
		switch m.name {
		case "route":
			d.note(pointerTo(m.name), "", OutcomeField, "route")
		case "project":
			if !isName(value) {
				d.keep(m)
				continue
			}
			d.note(pointerTo(m.name), "", OutcomeField, "project")
		case "first_seen":
			d.time(m)
		case "route_hash":
			if isPathID(value) {
				d.note(pointerTo(m.name), "", OutcomeField, "path_id")
				continue
			}
			d.keep(m)
		case "content_fingerprint", "raw_content_fingerprint":
			d.take(m, m.name, isFingerprint)
		case "hash_version":
			d.take(m, m.name, isVersion)
		case "content":
			d.take(m, m.name, isText)
		case "build":
			d.take(m, m.name, isName)
		case "labels":
			d.labelsOf(m)
		case "validated", "validated_at", "validated_by":
			d.validationMember(m)
		default:
			d.keep(m)
		}
	}
	return d.finish()
}

// keyLabel is the name of a label. The label contains the name of an entry if that name is not the
// path_id of the entry's route.
const keyLabel = "cache_key"

// pathID adds the claimed path_id to the record. The claim is route_hash or, if that is missing,
// the name of the entry. A name that does not match the route is not a claim, because newer caches
// derive the name from the text instead.
func (d *draft) pathID(id string, hash pyjson.Value, route [][]byte) {
	agrees := rules.IsPathID([]byte(id)) && bytes.HasPrefix(rules.RouteDigest(route), []byte(id))
	if isPathID(hash) {
		d.text("path_id", hash.Text())
	} else if agrees {
		d.text("path_id", []byte(id))
	}
	switch {
	case agrees:
		d.note("", "", OutcomeField, "path_id: the name of the entry")
	case d.addLabel(keyLabel, id):
		d.note("", "", OutcomeLabel, keyLabel+": the name of the entry is not the path_id of its route")
	default:
		d.note("", "", OutcomeLeftOut, "the name of the entry is not the path_id of its route and does not fit into a label")
	}
}

func isPathID(v pyjson.Value) bool { return v.Kind() == pyjson.String && rules.IsPathID(v.Text()) }

func isVersion(v pyjson.Value) bool { return isID(v) && len(v.Text()) <= fields.MaxShortTextBytes }

// fingerprintsOf returns a function that checks fingerprints of the given hash_version. An absent
// version means rules.FingerprintVersion.
func fingerprintsOf(version pyjson.Value) func(pyjson.Value) bool {
	name := rules.FingerprintVersion
	if isVersion(version) {
		name = string(version.Text())
	}
	return func(v pyjson.Value) bool { return rules.IsFingerprintForVersion(name, v.Text()) }
}

// routeOf parses a route, which is either a string of passage names joined by arrows or a list of
// names. Splitting a name that itself contains an arrow is harmless, because it does not change the
// path ID.
func routeOf(v pyjson.Value) (route [][]byte, ok bool) {
	if isText(v) {
		for name := range strings.SplitSeq(string(v.Text()), " → ") {
			route = append(route, []byte(name))
		}
		return route, true
	}
	for name := range v.Elements() {
		if !isText(name) {
			return nil, false
		}
		route = append(route, name.Text())
	}
	return route, isArray(v)
}

// validation sets the Conversion's Change to a validation of the path, if the entry says that the
// path is validated. The validation is made after the record has been posted.
func (d *draft) validation(v pyjson.Value, route [][]byte) {
	if v.Member("validated").Kind() != pyjson.True {
		return
	}
	by, at := v.Member("validated_by"), v.Member("validated_at")
	c := &RecordChange{PathID: string(rules.RouteDigest(route)[:rules.PathIDDigits]), Reason: "imported: validated", Key: d.changeKey("validated", at, by)}
	if isID(by) {
		c.OriginalActor = string(by.Text())
	}
	if when, _, ok := parseTime(at, d.options.DefaultZone); ok {
		c.Timestamp = when
	} else if isID(at) {
		c.Reason += " at " + string(at.Text())
	}
	d.conversion.Change = c
}

// validationMember accounts for a member that is in validationMembers.
func (d *draft) validationMember(m member) {
	switch {
	case m.name == "validated" && m.value.Kind() == pyjson.True:
		d.note(pointerTo(m.name), "", OutcomeField, "validation")
	case m.name == "validated" && m.value.Kind() == pyjson.False:
		d.note(pointerTo(m.name), "", OutcomeField, "no validation: a new path is not validated; an earlier validation is not withdrawn")
	case m.name == "validated_by" && d.conversion.Change != nil && d.conversion.Change.OriginalActor != "":
		d.note(pointerTo(m.name), "", OutcomeField, "original_actor of the validation")
	case m.name == "validated_at" && d.conversion.Change != nil && d.conversion.Change.Timestamp != "":
		d.note(pointerTo(m.name), "", OutcomeField, "timestamp of the validation")
	case m.name == "validated_at" && d.conversion.Change != nil && isID(m.value):
		d.note(pointerTo(m.name), "", OutcomeField, "reason of the validation: the value is not a time with a zone")
	default: // do not keep it as a label, which would change the record once the path is validated
		d.note(pointerTo(m.name), "", OutcomeLeftOut, "the value cannot be recorded in a validation of the path")
	}
}
