package formats

import (
	"slices"
	"strconv"

	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
	"colophon/ledger/record/rules"
)

// citations converts a run's citations.json (spec: Citations document).
func citations(v pyjson.Value, o Options) Conversion {
	subject, run := o.Subject, o.RunID
	for name, place := range map[string]*string{"subject": &subject, "run_id": &run} {
		if own := v.Member(name); isID(own) {
			*place = string(own.Text())
		}
	}
	d := newDraft(record.KindCitationSet, key(CitationsFile, v, nil, subject, run), o)
	if subject == "" {
		d.note("", "", OutcomeLeftOut, "no record was created")
		return d.leave("the citations have no subject; specify one with \"subject\"")
	}
	d.text("subject", []byte(subject))
	if run != "" {
		d.text("run_id", []byte(run))
	}
	set := &citationSet{draft: d, seen: make(map[string]int)}
	if set.read(v); d.tooMany {
		return d.finish()
	}
	for name, value := range v.Members() {
		m := member{string(name.Text()), value}
		switch m.name {
		case "all_citations", "by_section": // already handled by read
		case "subject", "run_id":
			if !isID(value) {
				d.keep(m)
				continue
			}
			d.note(pointerTo(m.name), "", OutcomeField, "%s", m.name)
		case "total_count":
			set.compare(m, []byte(strconv.Itoa(len(set.list))))
		case "source_ids":
			set.compare(m, set.sourceIDs())
		case "timestamp", "created_at":
			d.time(m)
		case "labels":
			d.labelsOf(m)
		default:
			d.keep(m)
		}
	}
	return d.finish()
}

// citationSet collects the citations that go into a draft.
type citationSet struct {
	*draft
	list    [][]byte       // the citations as JSON
	sources []string       // source ids of all citations so far
	seen    map[string]int // number of occurrences in all_citations not yet matched in by_section, by canonical citation
}

// read adds the citations in all_citations, followed by those in by_section that all_citations does
// not contain.
func (s *citationSet) read(v pyjson.Value) {
	all, sections := v.Member("all_citations"), v.Member("by_section")
	if all.Kind() != pyjson.Absent && !isArray(all) {
		s.keep(member{"all_citations", all})
	}
	i := 0
	for c := range all.Elements() {
		s.add(c, nil, "/all_citations/"+strconv.Itoa(i), "/all_citations/*")
		s.seen[canonical(c)]++
		i++
	}
	if sections.Kind() != pyjson.Absent && !isObject(sections) {
		s.keep(member{"by_section", sections})
	}
	for name, list := range sections.Members() {
		pointer := "/by_section" + pointerTo(string(name.Text()))
		if !isArray(list) {
			s.keepAt(pointer, "/by_section/*", member{"by_section/" + string(name.Text()), list})
		}
		i := 0
		for c := range list.Elements() {
			if s.tooMany {
				return
			}
			at := pointer + "/" + strconv.Itoa(i)
			if text := canonical(c); s.seen[text] > 0 {
				s.seen[text]--
				s.note(at, "/by_section/*/*", OutcomeField, "citations: the citation is also in all_citations")
			} else {
				s.add(c, name.Text(), at, "/by_section/*/*")
			}
			i++
		}
	}
	s.w.BeginMember("citations")
	s.w.Buf = append(s.w.Buf, '[')
	for i, c := range s.list {
		s.w.WriteComma(i)
		s.w.Buf = append(s.w.Buf, c...)
	}
	s.w.Buf = append(s.w.Buf, ']')
}

func canonical(v pyjson.Value) string { return string(v.AppendCanonical(nil, pyjson.CompactForm)) }

// add adds one citation. section is the section under which by_section lists the citation, or nil
// if it is not from by_section. pointer and pattern identify the citation's position in the
// document.
func (s *citationSet) add(c pyjson.Value, section []byte, pointer, pattern string) {
	if !isObject(c) {
		s.keepAt(pointer, pattern, member{pointer[1:], c})
		return
	}
	var w pyjson.Builder
	w.BeginObject()
	for name, value := range c.Members() {
		m := string(name.Text())
		at, atPattern := pointer+pointerTo(m), pattern+pointerTo(m)
		form := citationForms[m]
		if form == nil || !form(value) {
			s.keepAt(at, atPattern, member{(pointer + pointerTo(m))[1:], value})
			continue
		}
		w.BeginMember(m)
		w.Buf = append(w.Buf, value.Raw()...)
		s.note(at, atPattern, OutcomeField, "citations/*/%s", m)
		switch m {
		case "source_id":
			s.sources = append(s.sources, string(value.Text()))
		case "section":
			section = nil
		}
	}
	if len(section) > 0 && string(section) != rules.UnknownPlaceholder {
		w.AddText("section", section)
		s.note(pointer, pattern, OutcomeField, "citations/*/section")
	}
	w.EndObject()
	s.list = append(s.list, w.Buf)
}

// citationForms maps each member of a citation to the function that checks its value.
var citationForms = map[string]func(pyjson.Value) bool{
	"chunk_hash": func(v pyjson.Value) bool { return rules.IsChunkHash(v.Text()) },
	"source_id":  isName, "text": isText, "weight": isWeight,
	"section": func(v pyjson.Value) bool { return v.Kind() == pyjson.Null || isName(v) },
}

func isWeight(v pyjson.Value) bool {
	weight, ok := v.Float()
	return ok && weight >= 0 && weight <= 1
}

// sourceIDs returns the distinct source IDs in the citations, sorted, as a JSON array. The caller
// compares this array with the document's member source_ids.
func (s *citationSet) sourceIDs() []byte {
	slices.Sort(s.sources)
	b := []byte{'['}
	for i, id := range slices.Compact(s.sources) {
		if i > 0 {
			b = append(b, ',')
		}
		b = pyjson.AppendString(b, []byte(id))
	}
	return append(b, ']')
}

// compare checks whether the value of m equals follows, which is JSON computed from the citations.
// If the values differ, compare keeps m and notes the difference.
func (s *citationSet) compare(m member, follows []byte) {
	if canonical(m.value) == string(follows) {
		s.note(pointerTo(m.name), "", OutcomeField, "citations: the value can be computed from the citations")
		return
	}
	s.keep(m)
	s.conversion.MemberOutcomes[len(s.conversion.MemberOutcomes)-1].Detail += ": the value does not match the citations"
}
