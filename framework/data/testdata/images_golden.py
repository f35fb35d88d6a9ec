"""Writes images/ beside this file with Pillow 13: small pictures of many kinds, and of each what Pillow's convert("RGB") makes of it.

  python3 images_golden.py
"""

import os
import struct

from PIL import Image

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "images")
WIDTH, HEIGHT = 19, 14


def picture(mode="RGB", shift=0):
    """Colors that change slowly, with a corner of another one."""
    image = Image.new("RGBA", (WIDTH, HEIGHT))
    for y in range(HEIGHT):
        for x in range(WIDTH):
            corner = x < 4 and y < 3
            color = (250, 3, 7) if corner else (12 * x + shift, 17 * y, 230 - 6 * x - 7 * y)
            image.putpixel((x, y), (*(c % 256 for c in color), 255 if corner else 60 + 9 * x))
    if mode in ("P", "1"):
        return image.convert("RGB").convert(mode, palette=Image.Palette.ADAPTIVE, colors=32) if mode == "P" else image.convert("1")
    return image.convert(mode)


def path(name):
    return os.path.join(FOLDER, name)


def expect(name, image=None):
    """What a decoder has to give: RGB, row by row."""
    if image is None:
        with Image.open(path(name)) as opened:
            opened.seek(0)
            image = opened.convert("RGB")
    with open(path(name) + ".rgb", "wb") as file:
        file.write(struct.pack("<2H", *image.size) + image.tobytes())


def write(name, image, **options):
    image.save(path(name), **options)
    expect(name)


def write_bytes(name, content):
    with open(path(name), "wb") as file:
        file.write(content)
    expect(name)


def read(name):
    with open(path(name), "rb") as file:
        return file.read()


def write_webp():
    write("lossy.webp", picture(), quality=80)
    write("lossless.webp", picture(), lossless=True)
    write("alpha.webp", picture("RGBA"), lossless=True, exact=True)
    write("animated.webp", picture(), save_all=True, append_images=[picture(shift=90)], lossless=True)
    part = picture().crop((5, 4, 15, 10))
    whole = Image.new("RGBA", (WIDTH, HEIGHT), (0, 0, 0, 0))
    whole.paste(part, (5, 4))
    # The first frame is a part of the canvas.
    write("part.webp", whole, save_all=True, append_images=[picture("RGBA", shift=90)], lossless=True)


def write_gif():
    write("palette.gif", picture("P"), interlace=0)
    write("interlaced.gif", picture("P"), interlace=1)
    write("gray.gif", picture("L"))
    write("transparent.gif", picture("P"), transparency=3)
    write("animated.gif", picture("P"), save_all=True, append_images=[picture("P", shift=90)])
    # The first frame is a part of a larger screen: its place stands behind the colors of all frames.
    for name, transparent in (("part.gif", False), ("part_transparent.gif", True)):
        content = bytearray(read("transparent.gif" if transparent else "palette.gif"))
        colors = 3 * (2 << (content[10] & 7))
        struct.pack_into("<2H", content, 6, WIDTH + 6, HEIGHT + 5)
        frame = content.index(b"\x2c\0\0\0\0" + struct.pack("<2H", WIDTH, HEIGHT), 13 + colors)
        struct.pack_into("<2H", content, frame + 1, 4, 2)
        write_bytes(name, bytes(content))


def write_bmp():
    write("rgb.bmp", picture())
    write("palette.bmp", picture("P"))
    write("gray.bmp", picture("L"))
    write("bits.bmp", picture("1"))
    write("alpha.bmp", picture("RGBA"))
    content = bytearray(read("rgb.bmp"))
    struct.pack_into("<i", content, 22, -HEIGHT)
    write_bytes("top_down.bmp", bytes(content))
    # 16 bits a pixel, five for each color; and with masks, six for green.
    stride = (2 * WIDTH + 3) // 4 * 4
    rows = b"".join(struct.pack("<%dH" % WIDTH, *((97 * (x + WIDTH * y)) % 32768 for x in range(WIDTH))).ljust(stride, b"\0")
                    for y in range(HEIGHT))
    for name, masks in (("555.bmp", b""), ("565.bmp", struct.pack("<3I", 0xf800, 0x7e0, 0x1f))):
        begin = 54 + len(masks)
        header = struct.pack("<2sIHHI", b"BM", begin + len(rows), 0, 0, begin)
        header += struct.pack("<IiiHHIIiiII", 40, WIDTH, HEIGHT, 1, 16, 3 if masks else 0, len(rows), 0, 0, 0, 0)
        write_bytes(name, header + masks + rows)
    # 4 bits a pixel, and the short header of OS/2, whose colors have three bytes.
    stride = ((WIDTH + 1) // 2 + 3) // 4 * 4
    rows = b"".join(bytes((7 * y + 3 * x) % 256 for x in range((WIDTH + 1) // 2)).ljust(stride, b"\0") for y in range(HEIGHT))
    colors = b"".join(bytes((15 * i, 255 - 9 * i, 3 * i)) for i in range(16))
    begin = 14 + 12 + len(colors)
    header = struct.pack("<2sIHHI", b"BM", begin + len(rows), 0, 0, begin) + struct.pack("<IHHHH", 12, WIDTH, HEIGHT, 1, 4)
    write_bytes("os2.bmp", header + colors + rows)


def write_tiff():
    for compression in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        write(compression.split("_")[-1] + ".tif", picture(), compression=compression)
    write("jpeg.tif", picture(), compression="jpeg", quality=95)
    write("palette.tif", picture("P"))
    write("gray.tif", picture("L"))
    write("group4.tif", picture("1"), compression="group4")
    write("alpha.tif", picture("RGBA"))
    write("pages.tif", picture(), save_all=True, append_images=[picture(shift=90)])
    write("cmyk.tif", picture("CMYK"))
    # Pillow does not scale 16 bits; every value here is twice the same byte.
    gray = picture("L")
    wide = Image.frombytes("I;16", gray.size, bytes(b for value in gray.tobytes() for b in (value, value)))
    wide.save(path("wide.tif"))
    expect("wide.tif", gray.convert("RGB"))
    picture("F").save(path("floats.tif"))  # refused


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    write_webp()
    write_gif()
    write_bmp()
    write_tiff()
