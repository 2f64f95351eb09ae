package admin

import (
	"net/http"

	"colophon/api/call"
	"colophon/api/problem"
	"colophon/ledger/record"
	"colophon/ledger/record/pyjson"
)

// decode parses the request body, which must be a JSON object whose members are strings. For each
// known member, the map to contains the variable that receives the value. decode refuses unknown
// members and JSON that pyjson refuses (spec: Refused JSON) with 400, and values of other types
// with 422. A null member is treated as absent.
func decode(c *call.Call, to map[string]*string) error {
	body, err := c.ReadBody()
	if err != nil {
		return err
	}
	defer body.Release()
	if err := c.BeginDecoding(body); err != nil {
		return err
	}
	defer c.EndHeavyWork()
	var document pyjson.Document
	if err := document.ParseLimited(body.Bytes(), record.DefaultLimits().MaxJSONValues); err != nil {
		return problem.AtPointer(http.StatusBadRequest, "", "the request is malformed: "+err.Error())
	}
	if document.Root().Kind() != pyjson.Object {
		return problem.AtPointer(http.StatusUnprocessableEntity, "", "must be an object")
	}
	for name, value := range document.Root().Members() {
		pointer := string(pyjson.AppendPointerToken(nil, name.Text()))
		target, known := to[string(name.Text())]
		switch {
		case !known:
			return problem.AtPointer(http.StatusBadRequest, pointer, "unknown member; remove it or correct its name")
		case !value.IsGiven():
		case value.Kind() != pyjson.String || pyjson.HasLoneSurrogate(value.Text()):
			return problem.AtPointer(http.StatusUnprocessableEntity, pointer, "must be a string of valid UTF-8")
		default:
			*target = string(value.Text())
		}
	}
	return nil
}
