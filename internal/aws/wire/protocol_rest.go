package wire

import (
	"bytes"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"
)

// restJSON is restJson1: the operation is a method and a path, and members travel in the path, the query, headers and
// the body.
// https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html
type restJSON struct{}

// routes is a tree of path segments.
type routes struct {
	literal map[string]*routes
	label   *routes
	greedy  map[string]*operation // by method: a label that takes the rest of the path
	ends    map[string]*operation // by method
}

// addRoute puts an operation at its method and URI, and notes the names of its labels.
func (t *routes) addRoute(op *operation) {
	trait, ok := smithy.SchemaTrait[*traits.HTTP](op.schema.Schema)
	if !ok {
		panic("wire: " + op.service.Name + ": " + op.name + " has no HTTP binding")
	}
	op.http = trait
	uri, _, _ := strings.Cut(trait.URI, "?")
	n := t
	for segment := range strings.SplitSeq(strings.Trim(uri, "/"), "/") {
		label, isLabel := strings.CutPrefix(segment, "{")
		label = strings.TrimSuffix(label, "}")
		if name, ok := strings.CutSuffix(label, "+"); ok && isLabel {
			op.labels = append(op.labels, name)
			if n.greedy == nil {
				n.greedy = map[string]*operation{}
			}
			n.greedy[trait.Method] = op
			return
		}
		var next *routes
		if isLabel {
			op.labels = append(op.labels, label)
			if n.label == nil {
				n.label = &routes{}
			}
			next = n.label
		} else {
			if n.literal == nil {
				n.literal = map[string]*routes{}
			}
			if next = n.literal[segment]; next == nil {
				next = &routes{}
				n.literal[segment] = next
			}
		}
		n = next
	}
	if n.ends == nil {
		n.ends = map[string]*operation{}
	}
	n.ends[trait.Method] = op
}

// find walks the segments of an escaped path. Literals win over labels.
func (t *routes) find(method, rest string, labels []string) (*operation, []string) {
	segment, after, more := strings.Cut(rest, "/")
	next := func(n *routes, labels []string) (*operation, []string) {
		if more {
			return n.find(method, after, labels)
		}
		return n.ends[method], labels
	}
	if n := t.literal[segment]; n != nil {
		if op, l := next(n, labels); op != nil {
			return op, l
		}
	}
	if t.label != nil && segment != "" {
		if op, l := next(t.label, append(labels[:len(labels):len(labels)], segment)); op != nil {
			return op, l
		}
	}
	if op := t.greedy[method]; op != nil && rest != "" {
		return op, append(labels[:len(labels):len(labels)], rest)
	}
	return nil, nil
}

func (restJSON) operation(m *Mux, service *Service, r *request) (*operation, error) {
	path := r.URL.EscapedPath()
	// A signature is of the path without its "." and "..", which must not choose another operation than the one that
	// was signed.
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return nil, unknownOperation(service, r.Method+" "+path)
		}
	}
	op, labels := m.routesFor(service).find(r.Method, strings.TrimPrefix(path, "/"), nil)
	if op == nil && strings.HasSuffix(path, "/") {
		op, labels = m.routesFor(service).find(r.Method, strings.Trim(path, "/"), nil)
	}
	if op == nil {
		return nil, unknownOperation(service, r.Method+" "+path)
	}
	r.labels = labels
	return op, nil
}

func (restJSON) decodeRequest(op *operation, r *request, in reflect.Value) error {
	var query url.Values
	if r.URL.RawQuery != "" {
		var err error
		if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
			return &Error{Code: "SerializationException", Message: "The query string could not be read: " + err.Error(),
				Status: http.StatusBadRequest}
		}
	}
	v := in.Elem()
	for _, f := range op.input.fields {
		var err error
		switch value := v.Field(f.index); f.bind {
		case inBody:
		case inLabel:
			for i, label := range op.labels {
				if label != f.bindName || i >= len(r.labels) {
					continue
				}
				var text string
				if text, err = url.PathUnescape(r.labels[i]); err != nil {
					err = malformedf("The path segment %q could not be read: %v", r.labels[i], err)
				} else {
					err = parseText(f.plan, f.format, text, value)
				}
			}
		case inQuery:
			if list, ok := query[f.bindName]; ok {
				err = parseTexts(f, list, value)
			}
		case inQueryParams:
			m := reflect.MakeMap(value.Type())
			for name, list := range query {
				e := reflect.New(value.Type().Elem()).Elem()
				if e.Kind() == reflect.Slice {
					e.Set(reflect.ValueOf(list).Convert(e.Type()))
				} else {
					e.SetString(list[0])
				}
				m.SetMapIndex(reflect.ValueOf(name), e)
			}
			value.Set(m)
		case inHeader:
			if list := r.Header.Values(f.bindName); len(list) > 0 {
				err = parseTexts(f, list, value)
			}
		case inPrefixHeaders:
			m := reflect.MakeMap(value.Type())
			for name, list := range r.Header {
				if len(name) >= len(f.bindName) && strings.EqualFold(name[:len(f.bindName)], f.bindName) {
					m.SetMapIndex(reflect.ValueOf(strings.ToLower(name[len(f.bindName):])), reflect.ValueOf(list[0]))
				}
			}
			if m.Len() > 0 {
				value.Set(m)
			}
		case inPayload:
			switch {
			case len(r.body) == 0:
			case f.plan.kind == kindBlob:
				value.SetBytes(bytes.Clone(r.body)) // the body's buffer is used again
			case f.plan.kind == kindString:
				settable(value).SetString(string(r.body))
			default:
				err = decodeJSONBody(f.plan, r.body, value)
			}
		}
		if err != nil {
			return serialization(err)
		}
	}
	if op.bodyMembers && len(r.body) > 0 {
		return decodeJSONBody(op.input, r.body, in)
	}
	return nil
}

func (restJSON) decodedSize(r *request) int64 { return awsJSON{}.decodedSize(r) }

// parseTexts sets a member from the values of a header or query parameter, which are several for a list.
func parseTexts(f *field, texts []string, v reflect.Value) error {
	if f.plan.kind != kindList {
		return parseText(f.plan, f.format, texts[0], v)
	}
	list := reflect.MakeSlice(v.Type(), len(texts), len(texts))
	for i, text := range texts {
		if err := parseText(f.plan.elem, f.format, text, list.Index(i)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

func (restJSON) encodeResponse(b []byte, op *operation, r *request, out reflect.Value, header http.Header) (
	[]byte, int) {
	status := http.StatusOK
	if op.http.Code != 0 {
		status = op.http.Code
	}
	if status == http.StatusNoContent {
		return b, status
	}
	header.Set("Content-Type", "application/json")
	for _, f := range op.output.fields {
		if f.bind == inBody {
			continue
		}
		value, ok := indirect(out.Field(f.index))
		if !ok {
			continue
		}
		switch f.bind {
		case inHeader:
			header.Set(f.bindName, string(appendText(nil, f.plan, f.format, value)))
		case inPrefixHeaders:
			for _, key := range sortedKeys(value) {
				header.Set(f.bindName+key.String(), value.MapIndex(key).String())
			}
		case inStatus:
			status = int(value.Int())
		case inPayload:
			switch f.plan.kind {
			case kindBlob:
				header.Set("Content-Type", "application/octet-stream")
				return append(b, value.Bytes()...), status
			case kindString:
				header.Set("Content-Type", "text/plain")
				return append(b, value.String()...), status
			}
			return appendJSON(b, f.plan, f.format, value), status
		}
	}
	b = append(b, '{')
	b, _ = appendJSONMembers(b, op.output, out, op.lists, nil)
	return append(b, '}'), status
}

func (restJSON) encodeError(b []byte, service *Service, r *request, f *failure, header http.Header) []byte {
	header.Set("Content-Type", "application/json")
	header.Set("X-Amzn-Errortype", f.code)
	if f.modeled != nil {
		for _, fl := range f.plan.fields {
			if value, ok := indirect(f.value.Field(fl.index)); ok && fl.bind == inHeader {
				header.Set(fl.bindName, string(appendText(nil, fl.plan, fl.format, value)))
			}
		}
	}
	b = append(b, '{')
	b = appendJSONField(b, "__type", f.code)
	b = f.appendJSON(b)
	return append(b, '}')
}

// encodeRequest returns the client's side of restJson1, for requests that tests send.
func (restJSON) encodeRequest(op *operation, in reflect.Value) (uri string, body []byte) {
	path, _, _ := strings.Cut(op.http.URI, "?")
	query := url.Values{}
	for _, f := range op.input.fields {
		value, ok := indirect(in.Field(f.index))
		if !ok {
			continue
		}
		switch f.bind {
		case inLabel:
			text := string(appendText(nil, f.plan, f.format, value))
			path = strings.ReplaceAll(path, "{"+f.bindName+"}", url.PathEscape(text))
		case inQuery:
			if f.plan.kind != kindList {
				query.Set(f.bindName, string(appendText(nil, f.plan, f.format, value)))
				continue
			}
			for i := range value.Len() {
				query.Add(f.bindName, string(appendText(nil, f.plan.elem, f.format, value.Index(i))))
			}
		}
	}
	if op.bodyMembers {
		body = append(body, '{')
		body, _ = appendJSONMembers(body, op.input, in, false, nil)
		body = append(body, '}')
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, body
}
