package adapter_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/auth19/idem/core/adapter"
)

type shop struct{ name string }

func (s *shop) pay()                                            { _ = s.name }
func (s shop) list()                                            { _ = s.name }
func (s shop) ServeHTTP(_ http.ResponseWriter, _ *http.Request) { _ = s.name }

type empty struct{}

func (empty) pay() {}

type lists struct{ names []string }

func (lists) ServeHTTP(http.ResponseWriter, *http.Request) {}

func closure(n *int) func() { return func() { *n++ } }

// isSame compares as the audit does: by ==, which does not look behind a pointer.
func isSame(handlers [2]any) bool {
	return adapter.HandlerOf(handlers[0]) == adapter.HandlerOf(handlers[1])
}

// A handler is told by its closure, and a method value, which is a new closure each time, by its method and its receiver.
//
// CONTRACT D-2
func TestHandlerOf(t *testing.T) {
	a, b := &shop{name: "a"}, &shop{name: "b"}
	n := 0
	one := closure(&n)
	var first, second http.Handler = a, b
	direct := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, same := range map[string][2]any{
		"one closure":                     {one, one},
		"a function":                      {closure, closure},
		"a method of one receiver":        {a.pay, a.pay},
		"a method of a value":             {a.list, a.list},
		"a method of nothing":             {empty{}.pay, empty{}.pay},
		"a method of an interface":        {first.ServeHTTP, first.ServeHTTP},
		"a pointer":                       {a, a},
		"a value":                         {*a, shop{name: "a"}},
		"a function of net/http":          {direct, direct},
		"a value that cannot be compared": {lists{}, lists{[]string{"x"}}}, // uncertain
	} {
		require.True(t, isSame(same), name)
	}
	for name, other := range map[string][2]any{
		"two closures of one constructor": {one, closure(&n)},
		"two receivers":                   {a.pay, b.pay},
		"two values":                      {a.list, b.list},
		"two interfaces of one type":      {first.ServeHTTP, second.ServeHTTP},
		"two methods":                     {a.pay, a.list},
		"two pointers":                    {a, b},
		"two values of one type":          {*a, *b},
		"a method and a closure":          {a.pay, one},
	} {
		require.False(t, isSame(other), name)
	}
}
