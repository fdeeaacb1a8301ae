package sizedcache

import "testing"

func TestCache(t *testing.T) {
	t.Parallel()
	c := New[string, int](10)
	expect := func(key string, want int, ok bool) {
		t.Helper()
		if got, is := c.Get(key); got != want || is != ok {
			t.Errorf("%s is %d, %t; want %d, %t", key, got, is, want, ok)
		}
	}
	c.Add("a", 1, 4)
	c.Add("b", 2, 4)
	expect("a", 1, true) // and is now the last that was used
	c.Add("c", 3, 4)
	expect("b", 0, false)
	expect("a", 1, true)
	expect("c", 3, true)
	c.Add("c", 4, 6) // grows
	expect("a", 1, true)
	expect("c", 4, true)
	c.Add("c", 5, 7)
	expect("a", 0, false)
	expect("c", 5, true)
	c.Remove("c")
	expect("c", 0, false)
	c.Remove("c")
	c.Add("c", 6, 11)
	expect("c", 0, false)
	if c.Size() != 0 {
		t.Errorf("an empty cache has %d bytes", c.Size())
	}
}
