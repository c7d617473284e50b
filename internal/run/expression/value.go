package expression

import (
	"fmt"
	"maps"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// maxDepth and maxResult bound what an expression gives: lists and maps inside
// each other, and bytes of text, where every value counts as one.
const (
	maxDepth  = 32
	maxResult = 1 << 20
)

// A result is what an expression gave, on its way into what JSON has. CEL's
// cost limit does not bound it: a list of a thousand references to one long
// list is cheap to make.
type result struct{ left int } // bytes, roughly

func (r *result) take(n int) error {
	if r.left -= n; r.left < 0 {
		return fmt.Errorf("the expression gave more than %d bytes", maxResult)
	}
	return nil
}

func (r *result) native(v ref.Val, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("the expression gave lists and maps more than %d deep", maxDepth)
	}
	if err := r.take(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case *types.Unknown: // inside a list or a map
		return nil, unknown(v)
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		return float64(v), nil
	case types.String:
		return string(v), r.take(len(v))
	case traits.Lister:
		return r.list(v, depth)
	case traits.Mapper:
		return r.object(v, depth)
	}
	return nil, fmt.Errorf("the expression gave a %s, which JSON does not have", v.Type().TypeName())
}

func (r *result) list(v traits.Lister, depth int) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := r.native(it.Next(), depth-1)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (r *result) object(v traits.Mapper, depth int) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("the expression gave a map with a key of type %s, expected text", key.Type().TypeName())
		}
		if err := r.take(len(name)); err != nil {
			return nil, err
		}
		item, err := r.native(v.Get(key), depth-1)
		if err != nil {
			return nil, err
		}
		object[string(name)] = item
	}
	return object, nil
}

// inOrder adapts JSON objects so that they are walked in the order of their
// keys. CEL would walk a Go map in Go's order, which is random, and an
// expression could give two answers for one run.
type inOrder struct{ types.Adapter }

func (a inOrder) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case map[string]any:
		return object{types.NewStringInterfaceMap(a, v), v}
	case []any:
		return types.NewDynamicList(a, v)
	}
	return a.Adapter.NativeToValue(value)
}

// An object sorts its keys when it is walked, and not for every event that an
// expression only looks into.
type object struct {
	traits.Mapper
	values map[string]any
}

func (o object) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, slices.Sorted(maps.Keys(o.values))).Iterator()
}
