package insights

import "github.com/google/go-cmp/cmp"

// Same reports whether two queries have the same syntax tree, wherever in their texts its parts stand.
func Same(a, b *Query) bool {
	return cmp.Equal(a.source, b.source) && cmp.Equal(a.statements, b.statements, cmp.AllowUnexported(
		statement{}, fieldsCommand{}, filterCommand{}, statsCommand{}, sortCommand{}, limitCommand{}, parseCommand{},
		dedupCommand{}, patternCommand{},
		diffCommand{}, anomalyCommand{}, unnestCommand{}, unmaskCommand{}, item{}, sortKey{},
		nameExpression{}, numberExpression{}, periodExpression{}, stringExpression{}, regexExpression{}, boolExpression{},
		callExpression{}, accessExpression{}, unaryExpression{}, binaryExpression{}, likeExpression{}, inExpression{}, span{},
	), cmp.Comparer(func(a, b span) bool { return true }))
}
