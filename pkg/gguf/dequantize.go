package gguf

import (
	"encoding/binary"
	"math"
)

// The values are those of ggml's dequantize_row_* functions and of the Python package
// gguf, bit for bit: the products and sums below are rounded to float32 one by one, in
// their order. The conversions keep a compiler from fusing them.

// half widens the IEEE 754 binary16 value at the start of raw.
func half(raw []byte) float32 {
	h := binary.LittleEndian.Uint16(raw)
	sign, exponent, mantissa := uint32(h>>15)<<31, uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch exponent {
	case 0: // zero or subnormal
		return math.Float32frombits(math.Float32bits(float32(mantissa)*0x1p-24) | sign)
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0xff<<23 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | mantissa<<13)
}

func decodeF32(dst []float32, block []byte) {
	dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(block))
}

func decodeF16(dst []float32, block []byte) { dst[0] = half(block) }

func decodeBF16(dst []float32, block []byte) {
	dst[0] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(block)) << 16)
}

// nibbles calls set with the elements i and i+16 of a block of 32 that are in each byte.
func nibbles(qs []byte, set func(i int, q byte)) {
	for i, q := range qs[:16] {
		set(i, q&15)
		set(i+16, q>>4)
	}
}

func decodeQ4_0(dst []float32, block []byte) {
	d := half(block)
	nibbles(block[2:], func(i int, q byte) { dst[i] = d * float32(int(q)-8) })
}

func decodeQ4_1(dst []float32, block []byte) {
	d, m := half(block), half(block[2:])
	nibbles(block[4:], func(i int, q byte) { dst[i] = float32(d*float32(q)) + m })
}

func decodeQ5_0(dst []float32, block []byte) {
	d, high := half(block), binary.LittleEndian.Uint32(block[2:])
	nibbles(block[6:], func(i int, q byte) { dst[i] = d * float32(int(q)+int(high>>i&1)<<4-16) })
}

func decodeQ5_1(dst []float32, block []byte) {
	d, m, high := half(block), half(block[2:]), binary.LittleEndian.Uint32(block[4:])
	nibbles(block[8:], func(i int, q byte) { dst[i] = float32(d*float32(int(q)+int(high>>i&1)<<4)) + m })
}

func decodeQ8_0(dst []float32, block []byte) {
	d := half(block)
	for i, q := range block[2:34] {
		dst[i] = float32(int8(q)) * d
	}
}

// pair is the byte and the bits of it in which element i of a super-block with two bits
// each lies: four elements share a byte, 32 apart.
func pair(qs []byte, i int) byte { return qs[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3 }

func decodeQ2K(dst []float32, block []byte) {
	scales, qs, d, dmin := block, block[16:], half(block[80:]), half(block[82:])
	for i := range dst {
		scale := scales[i/16]
		dst[i] = float32(d*float32(scale&15))*float32(pair(qs, i)) - float32(dmin*float32(scale>>4))
	}
}

func decodeQ3K(dst []float32, block []byte) {
	mask, qs, scales, d := block, block[32:], block[96:], half(block[108:])
	for i := range dst {
		s := i / 16 // of 16 scales: the low four bits are in the first eight bytes, the high two in the other four
		scale := int(scales[s%8]>>(s/8*4)&15|scales[8+s%4]>>(s/4*2)&3<<4) - 32
		q := int(pair(qs, i)) - 4
		if mask[i%32]>>(i/32)&1 == 1 {
			q += 4
		}
		dst[i] = float32(d*float32(scale)) * float32(q)
	}
}

// scaleMin unpacks scale and minimum s of eight, six bits each.
func scaleMin(packed []byte, s int) (scale, minimum byte) {
	if s < 4 {
		return packed[s] & 63, packed[s+4] & 63
	}
	return packed[s+4]&15 | packed[s-4]>>6<<4, packed[s+4]>>4 | packed[s]>>6<<4
}

// fourBits is element i of a super-block with four bits each.
func fourBits(qs []byte, i int) byte { return qs[i/64*32+i%32] >> (i % 64 / 32 * 4) & 15 }

func decodeQ4K(dst []float32, block []byte) {
	decodeScaled(dst, block, func(i int) byte { return fourBits(block[16:], i) })
}

func decodeQ5K(dst []float32, block []byte) {
	decodeScaled(dst, block, func(i int) byte { return fourBits(block[48:], i) | block[16+i%32]>>(i/32)&1<<4 })
}

// decodeScaled decodes a super-block of eight parts with a scale and a minimum each.
func decodeScaled(dst []float32, block []byte, q func(i int) byte) {
	d, dmin := half(block), half(block[2:])
	for s := range 8 {
		scale, minimum := scaleMin(block[4:], s)
		ds, ms := d*float32(scale), dmin*float32(minimum)
		for i := 32 * s; i < 32*(s+1); i++ {
			dst[i] = float32(ds*float32(q(i))) - ms
		}
	}
}

func decodeQ6K(dst []float32, block []byte) {
	low, high, scales, d := block, block[128:], block[192:], half(block[208:])
	for i := range dst {
		q := int(low[i/128*64+i%64]>>(i%128/64*4)&15|pair(high, i)<<4) - 32
		dst[i] = float32(d*float32(int8(scales[i/16]))) * float32(q)
	}
}
