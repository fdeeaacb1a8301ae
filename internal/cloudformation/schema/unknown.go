package schema

import "encoding/json"

// UnknownValue is the type of [Unknown].
type UnknownValue struct{}

// Unknown stands for a value that is known only once a resource exists. It has every type.
var Unknown = UnknownValue{}

// unknownText is the text that change sets show for it.
const unknownText = "{{changeSet:KNOWN_AFTER_APPLY}}"

// String returns the text that change sets show.
func (UnknownValue) String() string { return unknownText }

// MarshalJSON encodes the text that change sets show.
func (UnknownValue) MarshalJSON() ([]byte, error) { return json.Marshal(unknownText) }
