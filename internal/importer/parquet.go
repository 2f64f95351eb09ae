package importer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"colophon/ledger/record/pyjson"
)

// isParquet reports whether a file begins with the magic number of a Parquet file. It returns false
// for standard input.
func isParquet(name string) bool {
	if name == "-" {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, len(parquetMagic))
	_, err = io.ReadFull(f, start)
	return err == nil && string(start) == string(parquetMagic)
}

// parquetRows yields each row of a Parquet file as a JSON object.
func (in *input) parquetRows(yield func(line, error) bool) {
	at := line{file: in.name, element: true, number: 1}
	more := true
	err := in.eachParquetRow(func(text []byte, err error) bool {
		one := at
		one.text = text
		more = yield(one, err)
		at.number++
		return more
	})
	if err != nil && more {
		yield(at, fmt.Errorf("the Parquet file cannot be read beyond this row: %w", err))
	}
}

func (in *input) eachParquetRow(visit func([]byte, error) bool) (err error) {
	defer func() {
		if r := recover(); r != nil { // the library panics on some malformed files
			err = fmt.Errorf("the file is malformed: %v", r)
		}
	}()
	f, err := os.Open(in.name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	reader := parquet.NewGenericReader[any](file)
	defer func() { err = errors.Join(err, reader.Close()) }()
	rows := make([]any, 1)
	for {
		rows[0] = nil
		n, err := reader.Read(rows)
		if n > 0 {
			w := new(pyjson.Builder)
			appendParquet(w, reflect.ValueOf(rows[0]), 0)
			if len(w.Buf) > in.maxLine {
				if !visit(nil, fmt.Errorf("the row is longer than %d bytes and was not sent", in.maxLine)) {
					return nil
				}
			} else if !visit(w.Buf, nil) {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == 0:
			return errors.New("the Parquet reader returned neither a row nor an error")
		}
	}
}

// maxParquetDepth is the maximum nesting depth of the values in a Parquet file.
const maxParquetDepth = 64

// appendParquet appends a value as JSON. Values nested deeper than maxParquetDepth become null.
func appendParquet(w *pyjson.Builder, v reflect.Value, depth int) {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if v.IsNil() {
			break
		}
		v = v.Elem()
	}
	if depth > maxParquetDepth || !v.IsValid() {
		w.Buf = append(w.Buf, "null"...)
		return
	}
	if at, is := v.Interface().(time.Time); is {
		w.Buf = pyjson.AppendString(w.Buf, []byte(at.UTC().Format(time.RFC3339Nano)))
		return
	}
	switch v.Kind() {
	case reflect.Map:
		if list, is := listOf(v); is {
			appendParquet(w, list, depth+1)
			return
		}
		w.BeginObject()
		for entries := v.MapRange(); entries.Next(); {
			w.BeginMember(fmt.Sprint(entries.Key().Interface()))
			appendParquet(w, entries.Value(), depth+1)
		}
		w.EndObject()
	case reflect.Slice, reflect.Array:
		if bytes, is := v.Interface().([]byte); is {
			w.Buf = appendBytes(w.Buf, bytes)
			return
		}
		w.Buf = append(w.Buf, '[')
		for i := range v.Len() {
			w.WriteComma(i)
			e := v.Index(i)
			if inner, is := elementOf(e); is {
				e = inner
			}
			appendParquet(w, e, depth+1)
		}
		w.Buf = append(w.Buf, ']')
	case reflect.String:
		text := v.String()
		if !utf8.ValidString(text) {
			w.Buf = appendBytes(w.Buf, []byte(text))
			return
		}
		w.Buf = pyjson.AppendString(w.Buf, []byte(text))
	case reflect.Bool:
		w.Buf = fmt.Append(w.Buf, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.Buf = fmt.Append(w.Buf, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		w.Buf = fmt.Append(w.Buf, v.Uint())
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); !math.IsNaN(f) && !math.IsInf(f, 0) {
			w.Buf = pyjson.AppendFloat(w.Buf, f)
			return
		}
		w.Buf = append(w.Buf, "null"...) // pandas represents a missing number as NaN
	default:
		w.Buf = append(w.Buf, "null"...)
	}
}

// listOf returns the list from a group of the form {"list": […]}, which is how Parquet represents a
// list.
func listOf(v reflect.Value) (reflect.Value, bool) { return onlyMember(v, "list", "bag") }

// elementOf returns the element from a group of the form {"element": …}, which is how Parquet
// represents an element of a list.
func elementOf(v reflect.Value) (reflect.Value, bool) {
	return onlyMember(v, "element", "item", "array_element")
}

func onlyMember(v reflect.Value, names ...string) (reflect.Value, bool) {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Map || v.Len() != 1 || v.Type().Key().Kind() != reflect.String {
		return v, false
	}
	for _, name := range names {
		if inner := v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key())); inner.IsValid() {
			return inner, true
		}
	}
	return v, false
}
