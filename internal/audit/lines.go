package audit

import "slices"

// lineEdit is a line that stayed (' '), went ('-') or came ('+').
type lineEdit struct {
	op   byte
	text string
}

// mostLines is up to where two texts are compared line by line; beyond, one replaces the other.
const mostLines = 2000

// lineEdits returns the shortest way from one text to another, by their longest common subsequence of lines.
func lineEdits(from, to []string) []lineEdit {
	var head, tail []lineEdit
	for len(from) > 0 && len(to) > 0 && from[0] == to[0] {
		head = append(head, lineEdit{' ', from[0]})
		from, to = from[1:], to[1:]
	}
	for len(from) > 0 && len(to) > 0 && from[len(from)-1] == to[len(to)-1] {
		tail = append(tail, lineEdit{' ', from[len(from)-1]})
		from, to = from[:len(from)-1], to[:len(to)-1]
	}
	slices.Reverse(tail)
	if len(from) > mostLines || len(to) > mostLines {
		for _, l := range from {
			head = append(head, lineEdit{'-', l})
		}
		for _, l := range to {
			head = append(head, lineEdit{'+', l})
		}
		return append(head, tail...)
	}
	common := make([][]int32, len(from)+1)
	for i := range common {
		common[i] = make([]int32, len(to)+1)
	}
	for i := len(from) - 1; i >= 0; i-- {
		for j := len(to) - 1; j >= 0; j-- {
			if from[i] == to[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(from) || j < len(to) {
		switch {
		case i < len(from) && j < len(to) && from[i] == to[j]:
			head = append(head, lineEdit{' ', from[i]})
			i, j = i+1, j+1
		case j == len(to) || i < len(from) && common[i+1][j] >= common[i][j+1]:
			head = append(head, lineEdit{'-', from[i]})
			i++
		default:
			head = append(head, lineEdit{'+', to[j]})
			j++
		}
	}
	return append(head, tail...)
}
