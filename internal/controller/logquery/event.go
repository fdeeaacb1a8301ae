package logquery

import (
	"unsafe"

	"github.com/coracle-eks/coracle/internal/logs/events"
	"github.com/coracle-eks/coracle/internal/logs/insights/value"
	"github.com/coracle-eks/coracle/internal/record"
)

// event is one row of the block at hand, as the plan sees it: the same variable for all rows.
type event struct {
	s        *scan
	messages *events.Messages // of the block; nil until a row needs its message
	// document finds the fields of the messages that have no column in the current block; index is their index in
	// it, by field.
	document *value.Document
	index    []int
	made     []documentOf // for the combinations of fields that came up

	row    int
	parsed bool
	isJSON bool
	err    error // why a value could not be read
}

// fieldSource is the source of a field.
type fieldSource uint8

const (
	fromJSON fieldSource = iota
	timestamp
	ingestionTime
	message
	logStream
	logGroup
	pointer
	toMessage // a reference
)

var systemFields = map[string]fieldSource{
	"@timestamp": timestamp, "@ingestionTime": ingestionTime, "@message": message, "@logStream": logStream,
	"@log": logGroup, "@ptr": pointer,
}

// maxDocuments is the maximum number of documents of an event.
const maxDocuments = 16

// documentOf is a document for a combination of fields.
type documentOf struct {
	fields   string // a byte for each field: 1 when it is among them
	document *value.Document
	index    []int
}

// moveToRow makes the event that of row i.
func (e *event) moveToRow(i int) { e.row, e.parsed = i, false }

// releaseBlock ends the use of the block at hand.
func (e *event) releaseBlock() {
	if e.messages != nil {
		e.messages.Release()
		e.messages = nil
	}
	e.document, e.err = nil, nil
}

// openMessages decompresses the messages of the block at hand.
func (e *event) openMessages() (err error) {
	if e.messages == nil {
		e.messages, err = e.s.block.Messages()
	}
	return err
}

// Value implements Event of the package insights.
func (e *event) Value(field int) value.Value {
	s := e.s
	switch e.s.sources[field] {
	case timestamp:
		return value.Time(s.rows.Timestamp[e.row])
	case ingestionTime:
		return value.Time(s.rows.Ingested[e.row])
	case logStream:
		return value.String(s.source.streams[s.rows.Stream[e.row]])
	case logGroup:
		return value.String(s.source.log)
	case pointer:
		return value.String(record.LogPointer{GroupID: uint64(s.source.id), Timestamp: s.rows.Timestamp[e.row],
			Seq: s.rows.Seq[e.row]}.String())
	case toMessage:
		return s.reference(e.row)
	case message:
		if e.err = e.openMessages(); e.err != nil {
			return value.Value{}
		}
		text := e.s.event.messages.At(e.row)
		// valid until Push returns, as Event promises
		return value.String(unsafe.String(unsafe.SliceData(text), len(text)))
	}
	col, err := s.loadColumn(field)
	if err != nil {
		e.err = err
		return value.Value{}
	}
	if col.stored != nil {
		return col.decodeValue(col.stored.Codes[e.row])
	}
	return e.readField(field)
}

// readField reads a field from the message.
func (e *event) readField(field int) value.Value {
	if !e.parsed {
		if e.err = e.openMessages(); e.err != nil {
			return value.Value{}
		}
		if e.document == nil {
			if e.err = e.chooseDocument(); e.err != nil {
				return value.Value{}
			}
		}
		e.parsed, e.isJSON = true, e.document.Parse(e.messages.At(e.row))
	}
	if !e.isJSON {
		return value.Value{}
	}
	return e.document.At(e.index[field])
}

// chooseDocument sets the document that finds all fields which the block at hand keeps in no column.
func (e *event) chooseDocument() error {
	key := make([]byte, len(e.s.sources))
	for i, k := range e.s.sources {
		if k != fromJSON {
			continue
		}
		col, err := e.s.loadColumn(i)
		if err != nil {
			return err
		}
		if col.stored == nil {
			key[i] = 1
		}
	}
	for _, m := range e.made {
		if m.fields == string(key) {
			e.document, e.index = m.document, m.index
			return nil
		}
	}
	var paths []*value.Path
	index := make([]int, len(e.s.sources))
	for i, missing := range key {
		if missing == 1 {
			index[i] = len(paths)
			paths = append(paths, value.ParsePath(e.s.fields[i]))
		}
	}
	e.document, e.index = value.NewDocument(paths...), index
	if len(e.made) == maxDocuments { // each block may have another combination
		e.made = nil
	}
	e.made = append(e.made, documentOf{string(key), e.document, e.index})
	return nil
}
