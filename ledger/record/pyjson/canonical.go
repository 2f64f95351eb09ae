package pyjson

// AppendCanonical appends the canonical form of v to dst (spec: Canonical JSON), encoded as WTF-8.
// If v is absent, it appends nothing. It takes time linear in the size of v.
func (v Value) AppendCanonical(dst []byte, f Form) []byte {
	if v.doc == nil {
		return dst
	}
	w := writer{doc: v.doc, comma: ",", colon: ":"}
	if f == SpacedForm {
		w.comma, w.colon = ", ", ": "
	}
	return w.append(dst, v.index)
}

// writer writes values of a Document in canonical JSON, with the separators of the compact or
// spaced form.
type writer struct {
	doc          *Document
	comma, colon string
}

func (w *writer) append(dst []byte, i uint32) []byte {
	d := w.doc
	n := &d.nodes[i]
	switch {
	case n.flags&verbatim != 0:
		return append(dst, d.src[n.start:n.end]...)
	case n.kind == Object:
		return w.appendObject(dst, i)
	case n.kind == Array:
		return w.appendArray(dst, i)
	case n.flags&plain != 0:
		dst = append(dst, '"')
		dst = append(dst, d.textOf(i)...)
		return append(dst, '"')
	case n.kind == String:
		return AppendString(dst, d.textOf(i))
	case n.kind == Integer:
		return append(dst, '0') // "-0" is the only integer that is not copied verbatim
	}
	f, _ := parseFloat(d.src[n.start:n.end]) // cannot fail, because the method number has already checked the range
	return AppendFloat(dst, f)
}

func (w *writer) appendObject(dst []byte, i uint32) []byte {
	dst = append(dst, '{')
	for name := w.doc.nodes[i].order; name != 0; {
		dst = w.append(dst, name)
		dst = append(dst, w.colon...)
		dst = w.append(dst, name+1)
		if name = w.doc.nodes[name].order; name != 0 {
			dst = append(dst, w.comma...)
		}
	}
	return append(dst, '}')
}

func (w *writer) appendArray(dst []byte, i uint32) []byte {
	dst = append(dst, '[')
	end := w.doc.nodes[i].link
	for child := i + 1; child < end; {
		dst = w.append(dst, child)
		if child = w.doc.next(child); child < end {
			dst = append(dst, w.comma...)
		}
	}
	return append(dst, ']')
}

// AppendString appends text, which must be valid WTF-8, as a canonical JSON string.
func AppendString(dst, text []byte) []byte {
	dst = append(dst, '"')
	for {
		end := special(text, 0)
		dst = append(dst, text[:end]...)
		if end == len(text) {
			return append(dst, '"')
		}
		dst = appendEscape(dst, text[end])
		text = text[end+1:]
	}
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}
