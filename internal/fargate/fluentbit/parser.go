package fluentbit

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Parser is a [PARSER] section. https://docs.fluentbit.io/manual/pipeline/parsers/configuring-parser
type Parser struct {
	Name string
	// Format is "regex", "json", "logfmt" or "ltsv".
	Format string
	// Regex is the expression of the format regex: its named groups are the fields.
	Regex           *Regex
	SkipEmptyValues bool
	// TimeKey is the field with the time of the record, in TimeFormat, which is strptime's with %L for fractions of
	// seconds. Without a format, fields have no time.
	TimeKey, TimeFormat string
	// TimeKeep keeps the field with the time.
	TimeKeep bool
	// TimeOffset is the time zone of times that have none.
	TimeOffset time.Duration
	// TimeStrict refuses times without the fractions that the format has.
	TimeStrict bool
	// Types are the types of fields: "string", "integer", "bool", "float" or "hex".
	Types map[string]string
	// NoBareKeys refuses keys without values in the format logfmt.
	NoBareKeys bool
	Decoders   []Decoder
}

// Decoder decodes a field. https://docs.fluentbit.io/manual/pipeline/parsers/decoders
type Decoder struct {
	Field string
	// As puts the text that was decoded in the place of the field; else its fields are added to the record.
	As bool
	// Kind is "json", "escaped", "escaped_utf8" or "mysql_quoted".
	Kind string
	// Next is "do_next", "try_next", or empty.
	Next string
}

func newParser(s *section, budget *regexBudget) (Parser, error) {
	s.budget = budget
	s.required("Name")
	s.required("Format")
	p := Parser{Name: s.stringValue("Name", ""), Format: s.choiceValue("Format", "", "regex", "json", "logfmt", "ltsv"),
		SkipEmptyValues: s.boolValue("Skip_Empty_Values", true), TimeKey: s.stringValue("Time_Key", ""),
		TimeFormat: s.stringValue("Time_Format", ""), TimeKeep: s.boolValue("Time_Keep", false),
		TimeStrict: s.boolValue("Time_Strict", true), NoBareKeys: s.boolValue("Logfmt_No_Bare_Keys", false)}
	s.boolValue("Time_System_Timezone", false) // the machine's time zone is UTC
	if property := s.property("Regex"); property != nil && p.Format == "regex" {
		p.Regex = s.regex(property, property.value)
		if s.err == nil && !slices.ContainsFunc(p.Regex.SubexpNames(), func(name string) bool { return name != "" }) {
			s.recordError(property, "the expression has no named groups", "name groups like (?<log>.*)")
		}
	} else if p.Format == "regex" {
		s.required("Regex")
	}
	if property := s.property("Time_Offset"); property != nil {
		at, err := time.Parse("-0700", property.value)
		if err != nil {
			s.recordError(property, fmt.Sprintf("Time_Offset is %.60q, which is not an offset", property.value),
				"write it like -0600")
		} else {
			_, seconds := at.Zone()
			p.TimeOffset = time.Duration(seconds) * time.Second
		}
	}
	if property := s.property("Time_Format"); property != nil {
		if err := CheckTimeFormat(p.TimeFormat); err != nil {
			s.recordError(property, err.Error(), "use the conversions of strptime(3)")
		}
		if p.TimeKey == "" {
			p.TimeKey = "time"
		}
	}
	if property := s.property("Types"); property != nil {
		p.Types = map[string]string{}
		for _, word := range strings.Fields(property.value) {
			name, kind, ok := strings.Cut(word, ":")
			kind = strings.ToLower(kind)
			if !ok || !slices.Contains([]string{"string", "integer", "bool", "float", "hex"}, kind) {
				s.recordError(property, fmt.Sprintf("%.60q is not a field with a type", word),
					"write FIELD:string, integer, bool, float or hex")
				continue
			}
			p.Types[name] = kind
		}
	}
	for _, property := range s.allProperties("Decode_Field", "Decode_Field_As") {
		words := strings.Fields(property.value)
		if len(words) < 2 || len(words) > 3 {
			s.recordError(property, property.key+" needs a decoder and a field", "write "+property.key+" json log")
			continue
		}
		d := Decoder{Kind: strings.ToLower(words[0]), Field: words[1],
			As: strings.EqualFold(property.key, "Decode_Field_As")}
		if len(words) == 3 {
			d.Next = strings.ToLower(words[2])
		}
		if !slices.Contains([]string{"json", "escaped", "escaped_utf8", "mysql_quoted"}, d.Kind) {
			s.recordError(property, fmt.Sprintf("%.60q is not a decoder", words[0]),
				"use json, escaped, escaped_utf8 or mysql_quoted")
		}
		if !slices.Contains([]string{"", "do_next", "try_next"}, d.Next) {
			s.recordError(property, fmt.Sprintf("%.60q is not an action", words[2]), "use do_next or try_next")
		}
		p.Decoders = append(p.Decoders, d)
	}
	return p, s.checkUnused()
}

// CheckTimeFormat returns an error unless the conversions of a format are those that the log router reads.
func CheckTimeFormat(format string) error {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		if i < len(format) && (format[i] == 'E' || format[i] == 'O') {
			i++
		}
		if i == len(format) {
			return fmt.Errorf("Time_Format %.60q ends in a conversion", format)
		}
		if !strings.ContainsRune("%aAbBhcdeDFHIjklLmMnprRsStTyYzZ", rune(format[i])) {
			return fmt.Errorf("Time_Format %.60q has the unknown conversion %%%c", format, format[i])
		}
	}
	return nil
}
