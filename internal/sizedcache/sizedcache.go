// Package sizedcache provides a cache that is bounded by the memory of its values rather than by their number: values
// that tenants choose may be small or large.
package sizedcache

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache keeps the values that were used last. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	max int64

	mu   sync.Mutex
	size int64
	lru  *simplelru.LRU[K, entry[V]]
}

type entry[V any] struct {
	value V
	size  int64
}

// New returns a cache whose values have max bytes together at most.
func New[K comparable, V any](max int64) *Cache[K, V] {
	c := &Cache[K, V]{max: max}
	lru, err := simplelru.NewLRU(math.MaxInt, func(_ K, e entry[V]) { c.size -= e.size })
	if err != nil {
		panic(err) // it refuses a size that is not positive, only
	}
	c.lru = lru
	return c
}

// Get returns the value of a key.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

// Add stores a value of that many bytes, its key included, in the place of an earlier one. It does not store a value
// that is larger than the whole cache.
func (c *Cache[K, V]) Add(key K, value V, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
	if size > c.max {
		return
	}
	c.lru.Add(key, entry[V]{value, size})
	for c.size += size; c.size > c.max; {
		c.lru.RemoveOldest()
	}
}

// Remove removes the value of a key, if there is one.
func (c *Cache[K, V]) Remove(key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key)
}

// Size returns the bytes of all values.
func (c *Cache[K, V]) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}
