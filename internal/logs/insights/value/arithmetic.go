package value

// The arithmetic operators. They are Null when an operand isn't a number, or when the result isn't one (x/0).

// Add is a + b.
func Add(a, b Value) Value { panic("unfinished") }

// Sub is a - b.
func Sub(a, b Value) Value { panic("unfinished") }

// Mul is a * b.
func Mul(a, b Value) Value { panic("unfinished") }

// Div is a / b.
func Div(a, b Value) Value { panic("unfinished") }

// Mod is a % b, with the sign of a.
func Mod(a, b Value) Value { panic("unfinished") }

// Pow is a ^ b.
func Pow(a, b Value) Value { panic("unfinished") }

// Neg is -a.
func Neg(a Value) Value { panic("unfinished") }
