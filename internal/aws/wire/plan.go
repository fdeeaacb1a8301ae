package wire

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/traits"

	"github.com/coracle-eks/coracle/internal/aws/wire/model"
)

// A plan encodes and decodes the values of one Go type. It is made once of the Smithy schema and the Go type, so that
// requests read neither.
type plan struct {
	kind   kind
	typ    reflect.Type // the Go type without its pointer
	format timeFormat   // of timestamps: what the schema says, or formatDefault

	limit *model.Constraint // where the model gives no maximum

	elem *plan  // of a list's elements or a map's values
	item string // XML name of a list's elements, "member" or "entry" of a map
	key  string // XML names of a map's parts
	val  string

	fields   []*field          // of a structure
	byName   map[string]*field // by member name
	hidden   []string          // query names of members that the Go structure has no exported field for
	variants []*variant        // of a union
	enum     map[string]bool   // values of an enumeration
	values   []string          // the same, in the SDK's order
}

type kind uint8

const (
	kindString kind = iota
	kindBool
	kindInt
	kindFloat
	kindBlob
	kindTime
	kindList
	kindMap
	kindStruct
	kindUnion
	kindEventStream // lives in the SDK's client, not in the structure: neither sent nor received by wire
)

// field is one member of a structure.
type field struct {
	index   int    // in the Go structure
	goName  string //
	name    string // the member: roleArn
	display string // in messages: roleName for IAM's RoleName, as AWS writes it
	json    string // in JSON
	xml     string // in XML, and in awsQuery requests
	query   string // in requests of awsQuery and ec2Query
	flat    bool   // a flattened list or map
	pointer bool
	plan    *plan

	bind     binding
	bindName string // of the header, query parameter or label
	format   timeFormat
	limit    *model.Constraint
}

// binding is the part of a restJson1 message that carries a member.
type binding uint8

const (
	inBody binding = iota
	inLabel
	inQuery
	inQueryParams
	inHeader
	inPrefixHeaders
	inStatus
	inPayload
)

type variant struct {
	name string
	json string
	xml  string
	typ  reflect.Type // of the structure; the union holds a pointer to it
	plan *plan        // of its Value
	flat bool
}

type timeFormat uint8

const (
	formatDefault timeFormat = iota
	formatEpoch
	formatDateTime
	formatHTTPDate
)

// planner makes the plans of one service.
type planner struct {
	service *Service
	model   *model.Service

	mu      sync.Mutex
	structs map[reflect.Type]*plan
}

// planFor returns the plan for a Go type that travels by schema. It panics when the two do not fit: the SDK's structure
// and the model must be of one version.
func (p *planner) planFor(t reflect.Type, schema *smithy.Schema) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.buildPlan(t, schema)
}

func (p *planner) buildPlan(t reflect.Type, schema *smithy.Schema) *plan {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	pl := &plan{typ: t, format: formatOf(schema)}
	isQuery := p.service.Protocol == AWSQuery || p.service.Protocol == EC2Query
	switch t.Kind() {
	case reflect.String:
		pl.kind = kindString
		if isQuery {
			pl.limit = p.service.textLimit()
		}
		pl.values = enumValues(t)
		if pl.values != nil {
			pl.enum = make(map[string]bool, len(pl.values))
			for _, v := range pl.values {
				pl.enum[v] = true
			}
		}
		return pl
	case reflect.Bool:
		pl.kind = kindBool
		return pl
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		pl.kind = kindInt
		return pl
	case reflect.Float32, reflect.Float64:
		pl.kind = kindFloat
		return pl
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			pl.kind = kindBlob
			if isQuery {
				pl.limit = p.service.textLimit()
			}
			return pl
		}
		pl.kind, pl.limit = kindList, membersLimit
		member := schema.ListMember()
		pl.item = xmlName(member, "member")
		pl.elem = p.buildPlan(t.Elem(), member)
		return pl
	case reflect.Map:
		pl.kind, pl.limit = kindMap, membersLimit
		pl.item = "entry"
		pl.key, pl.val = xmlName(schema.MapKey(), "key"), xmlName(schema.MapValue(), "value")
		pl.elem = p.buildPlan(t.Elem(), schema.MapValue())
		return pl
	case reflect.Interface:
		if _, ok := smithy.SchemaTrait[*traits.Streaming](schema); ok {
			pl.kind = kindEventStream
			return pl
		}
		return p.planUnion(pl, schema)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			pl.kind = kindTime
			return pl
		}
		return p.structure(t, schema)
	}
	panic(fmt.Sprintf("wire: %s: %v has no form on the wire", p.service.Name, t))
}

func (p *planner) structure(t reflect.Type, schema *smithy.Schema) *plan {
	if pl := p.structs[t]; pl != nil {
		return pl
	}
	pl := &plan{kind: kindStruct, typ: t}
	p.structs[t] = pl
	var members map[string]*smithy.Schema
	if schema != nil {
		members = make(map[string]*smithy.Schema, len(schema.Members()))
		for name, m := range schema.Members() {
			members[strings.ToLower(name)] = m
		}
	}
	constraints := p.model.Constraints(t.Name())
	pl.byName = make(map[string]*field, len(members))
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Name == "ResultMetadata" || f.Name == "ErrorCodeOverride" {
			continue
		}
		m := members[strings.ToLower(f.Name)]
		if m == nil {
			// A few Go names differ: the SDK puts "Value" before names that Go reserves and drops a leading underscore.
			m = members["_"+strings.ToLower(f.Name)]
		}
		if m == nil && f.Name == "Message" && reflect.PointerTo(t).Implements(reflect.TypeFor[error]()) {
			continue // the SDK gives every error a message, modeled or not
		}
		if m == nil {
			panic(fmt.Sprintf("wire: %s: the schema of %v has no member for field %s", p.service.Name, t, f.Name))
		}
		delete(members, strings.ToLower(m.MemberName()))
		fl := &field{
			index: i, goName: f.Name, name: m.MemberName(), json: m.MemberName(), xml: xmlName(m, m.MemberName()),
			pointer: f.Type.Kind() == reflect.Pointer,
			plan:    p.buildPlan(f.Type, m),
		}
		fl.display = string(unicode.ToLower(rune(fl.name[0]))) + fl.name[1:]
		if n, ok := smithy.SchemaTrait[*traits.JSONName](m); ok {
			fl.json = n.Name
		}
		fl.query = fl.xml
		if n, ok := smithy.SchemaTrait[*traits.EC2QueryName](m); ok {
			fl.query = n.Name
		}
		_, fl.flat = smithy.SchemaTrait[*traits.XMLFlattened](m)
		fl.format = formatOf(m)
		p.bindMember(fl, m)
		if c, ok := constraints[f.Name]; ok {
			if c.Max == nil && fl.plan.limit != nil {
				c.Max = fl.plan.limit.Max
			}
			if p.service.takesEmptyMaps && fl.plan.kind == kindMap && !c.Required {
				c.Min = nil
			}
			fl.limit = &c
		}
		pl.fields = append(pl.fields, fl)
		pl.byName[fl.json] = fl
	}
	for name, m := range members {
		if n, ok := smithy.SchemaTrait[*traits.EC2QueryName](m); ok {
			name = n.Name
		}
		pl.hidden = append(pl.hidden, name)
	}
	return pl
}

// bindMember finds the part of the request to which restJson1 binds a member.
func (p *planner) bindMember(f *field, m *smithy.Schema) {
	if h, ok := smithy.SchemaTrait[*traits.HTTPHeader](m); ok {
		f.bind, f.bindName = inHeader, http.CanonicalHeaderKey(h.Name)
		if f.format == formatDefault {
			f.format = formatHTTPDate
		}
	} else if h, ok := smithy.SchemaTrait[*traits.HTTPPrefixHeaders](m); ok {
		f.bind, f.bindName = inPrefixHeaders, h.Prefix
	} else if _, ok := smithy.SchemaTrait[*traits.HTTPLabel](m); ok {
		f.bind, f.bindName = inLabel, f.name
	} else if q, ok := smithy.SchemaTrait[*traits.HTTPQuery](m); ok {
		f.bind, f.bindName = inQuery, q.Name
	} else if _, ok := smithy.SchemaTrait[*traits.HTTPQueryParams](m); ok {
		f.bind = inQueryParams
	} else if _, ok := smithy.SchemaTrait[*traits.HTTPPayload](m); ok {
		f.bind = inPayload
	} else if _, ok := smithy.SchemaTrait[*traits.HTTPResponseCode](m); ok {
		f.bind = inStatus
	}
	if f.format == formatDefault && (f.bind == inLabel || f.bind == inQuery) {
		f.format = formatDateTime
	}
}

func (p *planner) planUnion(pl *plan, schema *smithy.Schema) *plan {
	variants := model.Variants(pl.typ)
	if variants == nil {
		panic(fmt.Sprintf("wire: %s: %v is not a union of the model", p.service.Name, pl.typ))
	}
	if known := p.structs[pl.typ]; known != nil {
		return known
	}
	p.structs[pl.typ] = pl
	pl.kind = kindUnion
	for name, m := range schema.Members() {
		t := variants[strings.ToUpper(name[:1])+name[1:]]
		if t == nil {
			panic(fmt.Sprintf("wire: %s: union %v has no Go type for member %s", p.service.Name, pl.typ, name))
		}
		value, _ := t.FieldByName("Value")
		v := &variant{name: name, json: name, xml: xmlName(m, name), typ: t, plan: p.buildPlan(value.Type, m)}
		if n, ok := smithy.SchemaTrait[*traits.JSONName](m); ok {
			v.json = n.Name
		}
		_, v.flat = smithy.SchemaTrait[*traits.XMLFlattened](m)
		pl.variants = append(pl.variants, v)
	}
	slices.SortFunc(pl.variants, func(a, b *variant) int { return strings.Compare(a.name, b.name) })
	return pl
}

func xmlName(m *smithy.Schema, otherwise string) string {
	if n, ok := smithy.SchemaTrait[*traits.XMLName](m); ok {
		return n.Name
	}
	return otherwise
}

func formatOf(m *smithy.Schema) timeFormat {
	if f, ok := smithy.SchemaTrait[*traits.TimestampFormat](m); ok {
		switch f.Format {
		case "epoch-seconds":
			return formatEpoch
		case "date-time":
			return formatDateTime
		case "http-date":
			return formatHTTPDate
		}
	}
	return formatDefault
}

// enumValues returns the values of an enumeration of the SDK, which has a method Values() []X; nil for other strings.
func enumValues(t reflect.Type) []string {
	m, ok := t.MethodByName("Values")
	if !ok || m.Type.NumIn() != 1 || m.Type.NumOut() != 1 {
		return nil
	}
	list := m.Func.Call([]reflect.Value{reflect.Zero(t)})[0]
	out := make([]string, list.Len())
	for i := range out {
		out[i] = list.Index(i).String()
	}
	return out
}

// planners by service.
var planners sync.Map // *Service -> *planner

func plannerOf(s *Service) *planner {
	if p, ok := planners.Load(s); ok {
		return p.(*planner)
	}
	p, _ := planners.LoadOrStore(s, &planner{service: s, model: model.Load(s.Name), structs: map[reflect.Type]*plan{}})
	return p.(*planner)
}
