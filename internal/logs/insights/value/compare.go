package value

// Equal is the `=` of the language, Null included: Null equals nothing, not even Null.
func Equal(a, b Value) bool { panic("unfinished") }

// Relation compares a and b as `<`, `<=`, `>` and `>=` do: as numbers when both are (numeric
// strings too), as text otherwise. ok is false when there is nothing to compare (one is Null, a list or a map):
// then every such condition is false.
func Relation(a, b Value) (cmp int, ok bool) { panic("unfinished") }

// Compare is the order of `sort`, sortsFirst and sortsLast, a total order over all values as
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax-Sort.html describes it.
func Compare(a, b Value) int { panic("unfinished") }

// AppendKey appends to b a text that two values share exactly if they belong into the same group (of `stats by`, dedup, count_distinct).
func AppendKey(b []byte, v Value) []byte { panic("unfinished") }
