package template

import (
	"math/big"
	"net/netip"
	"strconv"
	"strings"
)

// cidr evaluates Fn::Cidr: [block, count, bits], where bits are those of a host in a subnet.
//
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/intrinsic-function-reference-cidr.html
func (e *evaluator) cidr(argument any) (any, error) {
	list, ok := argument.([]any)
	if !ok || len(list) < 2 || len(list) > 3 {
		return nil, errCIDR
	}
	texts := make([]string, len(list))
	for i, item := range list {
		text, known, err := e.evaluateText(item, errCIDR)
		if err != nil || !known {
			return Unknown, err
		}
		texts[i] = text
	}
	block, err := netip.ParsePrefix(texts[0])
	if err != nil {
		return nil, errorf("Template error: Fn::Cidr: %s is not a valid CIDR block", texts[0])
	}
	count, err := parseCount(texts[1])
	if err != nil || count < 1 || count > maxCIDRBlocks {
		return nil, errCIDR
	}
	bits, size := 8, block.Addr().BitLen()
	if size == 128 {
		bits = 64
	}
	if len(texts) == 3 {
		if bits, err = parseCount(texts[2]); err != nil || bits < 1 || bits > size {
			return nil, errCIDR
		}
	}
	length := size - bits
	if length < block.Bits() || length-block.Bits() < 9 && count > 1<<(length-block.Bits()) {
		return nil, errorf("Template error: Fn::Cidr: %s has no room for %d CIDR blocks of %d subnet bits", texts[0], count,
			bits)
	}
	first := new(big.Int).SetBytes(block.Masked().Addr().AsSlice())
	step := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	blocks := make([]any, count)
	for i := range blocks {
		address, _ := netip.AddrFromSlice(first.FillBytes(make([]byte, size/8)))
		blocks[i] = netip.PrefixFrom(address, length).String()
		first.Add(first, step)
	}
	return blocks, e.addSizeOf(blocks)
}

// parseCount parses an integer that may be written as 1.0, which JSON makes of numbers.
func parseCount(text string) (int, error) {
	return strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), ".0"))
}
