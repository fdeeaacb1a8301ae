package value

import (
	"github.com/axiomhq/hyperloglog"
	"github.com/cespare/xxhash/v2"
)

// exactDistinct is up to how many values count_distinct counts exactly (but for values whose 64-bit hashes are
// equal, one pair in 10^12 such counts). With more it is an approximation, as on AWS: HyperLogLog
// with 2^14 registers, whose standard error is 0.8 %.
const exactDistinct = 4096

// distinct counts the values that AppendKey tells apart.
type distinct struct {
	hashes hashSet // until there are too many
	sketch *hyperloglog.Sketch
	key    []byte
}

func (d *distinct) Add(args []Value, _ int64) {
	if !ordered(args[0]) {
		return
	}
	d.key = AppendKey(d.key[:0], args[0])
	d.add(xxhash.Sum64(d.key))
	if cap(d.key) > 1024 {
		d.key = nil
	}
}

func (d *distinct) add(hash uint64) {
	if d.sketch != nil {
		d.sketch.InsertHash(hash)
		return
	}
	if d.hashes.add(hash); d.hashes.n > exactDistinct {
		d.approximate()
	}
}

func (d *distinct) approximate() {
	d.sketch = hyperloglog.NewNoSparse() // always dense: the same registers whatever came first
	for h := range d.hashes.all {
		d.sketch.InsertHash(h)
	}
	d.hashes = hashSet{}
}

func (d *distinct) Merge(other Accumulator) {
	o := other.(*distinct)
	if o.sketch == nil {
		for h := range o.hashes.all {
			d.add(h)
		}
		return
	}
	if d.sketch == nil {
		d.approximate()
	}
	if err := d.sketch.Merge(o.sketch); err != nil {
		panic(err) // their precisions differ: impossible
	}
}

func (d *distinct) Result() Value {
	if d.sketch != nil {
		return Int(int64(d.sketch.Estimate()))
	}
	return Int(int64(d.hashes.n))
}

func (d *distinct) Bytes() int {
	n := 64 + cap(d.key) + 8*len(d.hashes.slots)
	if d.sketch != nil {
		n += 1 << 14
	}
	return n
}

// hashSet is a set of hashes with open addressing: a tenth of the memory of a map, for groups of few values.
type hashSet struct {
	slots []uint64 // a power of two, half full at most; 0 is free
	n     int
	zero  bool // the hash 0 is in it
}

func (s *hashSet) add(h uint64) {
	if h == 0 {
		if !s.zero {
			s.zero = true
			s.n++
		}
		return
	}
	if 2*(s.n+1) > len(s.slots) {
		old := s.slots
		s.slots = make([]uint64, max(4, 2*len(old)))
		for _, o := range old {
			if o != 0 {
				s.slots[s.findSlot(o)] = o
			}
		}
	}
	if i := s.findSlot(h); s.slots[i] == 0 {
		s.slots[i] = h
		s.n++
	}
}

// findSlot returns the slot in which h is or belongs.
func (s *hashSet) findSlot(h uint64) int {
	mask := len(s.slots) - 1
	i := int(h) & mask
	for s.slots[i] != 0 && s.slots[i] != h {
		i = (i + 1) & mask
	}
	return i
}

func (s *hashSet) all(yield func(uint64) bool) {
	if s.zero && !yield(0) {
		return
	}
	for _, h := range s.slots {
		if h != 0 && !yield(h) {
			return
		}
	}
}
