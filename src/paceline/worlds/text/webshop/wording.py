"""The words that our own catalogue is made of: departments, kinds of product, what is said about them.

Every name of a kind's products shares a word with the others, so that two products of a kind count as one type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of product.

    Attributes:
        query: What one would look for.
        department: Whose attributes it has besides its own.
        path: Its place in the tree of categories.
        prices: From, to.
        names: What its products are called.
        uses: What they are for.
        attributes: What they can be.
        options: Name → values to choose from.
    """

    query: str
    department: str
    path: str
    prices: tuple[int, int]
    names: Sequence[str]
    uses: Sequence[str]
    attributes: Sequence[str]
    options: Mapping[str, Sequence[str]]


def _lists(table: str) -> dict[str, list[str]]:
    """Reads lines of `name: this, that`."""
    pairs = (line.split(": ") for line in table.strip().splitlines())
    return {name: items.split(", ") for name, items in pairs}


def _kinds(table: str) -> Iterator[Kind]:
    """Reads blocks of five lines: query, department, path and prices; names; uses; attributes; options."""
    lines = [line.strip() for line in table.strip().splitlines()]
    for first, names, uses, attributes, options in zip(*[iter(lines)] * 5, strict=True):
        query, department, path, prices = first.split(" | ")
        low, high = prices.split(" to ")
        chosen = dict(option.split() for option in options.split(", "))
        yield Kind(
            query,
            department,
            path,
            (int(low), int(high)),
            names.split(", "),
            uses.split(", "),
            attributes.split(", "),
            {name: VALUES[values] for name, values in chosen.items()},
        )


VALUES = _lists("""
clothes: x-small, small, medium, large, x-large, xx-large, 3x-large
shoes: 6, 6.5, 7, 7.5, 8, 8.5, 9, 9.5, 10, 11, 12, 13
colors: black, white, navy, dark green, light blue, burgundy, mustard, teal, coral, olive, rust, plum, rose pink
finishes: walnut, natural oak, matte black, chalk white, slate grey, copper, espresso
scents: cedar, lemon peel, unscented, rosemary, vanilla, sea salt, fig leaf, peppermint
volumes: 1 fl oz, 2 fl oz, 4 fl oz, 8 fl oz, 12 fl oz, 16 fl oz
packs: pack of 1, pack of 2, pack of 3, pack of 4, pack of 6, pack of 12
lengths: 1 foot, 3 feet, 6 feet, 10 feet, 15 feet
cushions: 16 x 16 inch, 18 x 18 inch, 20 x 20 inch, 24 x 24 inch
teas: earl grey, mint, chamomile, ginger, jasmine, spiced chai, hibiscus
roasts: light roast, medium roast, dark roast, half caffeine, decaf
snacks: original, honey, cinnamon, cocoa, maple, coconut, cherry, salted peanut
sauces: tomato, basil, roasted garlic, mushroom, chili, four cheese
phones: model a1, model a1 plus, model b2, model b2 mini, model c3
socks: small, medium, large, x-large
jars: 1 fl oz, 2 fl oz, 4 fl oz, 8 fl oz
speakers: small, medium, large
switches: linear switch, tactile switch, silent switch
widths: narrow, wide, extra wide
throws: 50 x 60 inch, 60 x 80 inch, 90 x 90 inch
pots: 4 inch, 6 inch, 8 inch, 10 inch
boxes: pack of 1, pack of 2, pack of 3, pack of 4
bags: 8 ounce, 12 ounce, 2 pound, 5 pound
""")

DEPARTMENTS = _lists("""
fashion: machine washable, quick drying, soft lining, tagless collar, recycled fabric, double stitched
beauty: cruelty free, paraben free, dermatologist tested, travel size, vegan formula, refillable bottle
electronics: two year warranty, easy setup, energy saving, compact design, scratch resistant, spare parts
garden: easy assembly, solid wood, wipe clean, child safe, hand finished, flat packed
grocery: gluten free, non gmo, certified organic, nut free, low sodium, resealable bag
""")

KINDS = list(
    _kinds("""
men's henleys | fashion | Clothing › Men › Shirts › Henleys | 12 to 60
  henley shirt, henley tee, thermal henley
  layering, weekends, long walks
  long sleeve, slim fit, waffle knit, button placket, ribbed cuffs, cotton blend
  size clothes, color colors
women's dresses | fashion | Clothing › Women › Dresses › Casual | 18 to 95
  summer dress, wrap dress, shirt dress
  garden parties, the office, hot days
  side pockets, tie waist, knee length, crew neck, loose fit, floral print
  size clothes, color colors
running shoes | fashion | Clothing › Shoes › Athletic › Running | 35 to 160
  running shoes, trail shoes, racing shoes
  daily miles, muddy paths, race day
  memory foam, rubber sole, arch support, wide toe, reflective heel, breathable mesh
  size shoes, color colors
rain jackets | fashion | Clothing › Outerwear › Jackets › Rain | 30 to 180
  rain jacket, hooded jacket, cycling jacket
  wet commutes, hill walks, stormy days
  taped seams, zip pockets, adjustable hood, wind proof, packs small, long back
  size clothes, color colors
wool socks | fashion | Clothing › Accessories › Socks › Wool | 8 to 40
  wool socks, hiking socks, ankle socks
  cold floors, boots, camping
  merino wool, cushioned sole, odor control, seamless toe, arch band, extra warm
  size socks, color colors, pack packs
shampoos | beauty | Beauty › Hair Care › Wash › Shampoos | 6 to 38
  repair shampoo, daily shampoo, bar shampoo
  dry hair, fine hair, curly hair
  sulfate free, coconut oil, color safe, tea tree, deep cleansing, rich lather
  scent scents, size volumes
face creams | beauty | Beauty › Skin Care › Face › Creams | 9 to 80
  face cream, night cream, day cream
  dry skin, sensitive skin, cold weather
  hyaluronic acid, oil free, fast absorbing, fragrance free, aloe vera, sun protection
  size jars
lip balms | beauty | Beauty › Skin Care › Lips › Balms | 3 to 22
  lip balm, tinted balm, winter balm
  chapped lips, ski trips, pockets
  shea butter, bees wax, long lasting, glossy finish, vitamin e, paper tube
  scent scents, pack packs
beard oils | beauty | Beauty › Shaving › Beard › Oils | 7 to 45
  beard oil, softening oil, conditioning oil
  long beards, itchy skin, daily grooming
  argan oil, light weight, non greasy, glass dropper, natural ingredients, mild scent
  scent scents, size volumes
hair brushes | beauty | Beauty › Hair Care › Tools › Brushes | 5 to 35
  paddle brush, detangling brush, round brush
  thick hair, wet hair, styling
  boar bristle, anti static, wooden handle, heat resistant, non slip, soft tips
  color colors
headphones | electronics | Electronics › Audio › Personal › Headphones | 25 to 320
  wireless headphones, studio headphones, sport headphones
  long flights, the gym, home offices
  noise cancelling, long battery, folding arms, hands free, deep bass, padded cups
  color colors
charging cables | electronics | Electronics › Accessories › Power › Cables | 6 to 30
  charging cable, braided cable, data cable
  car trips, bedside tables, desks
  fast charging, nylon braid, gold plated, right angle, tangle free, high speed
  length lengths, color colors, pack packs
phone cases | electronics | Electronics › Accessories › Phones › Cases | 8 to 48
  phone case, folio case, bumper case
  clumsy hands, commuters, builders
  shock proof, card slots, wireless charging, raised edges, anti yellowing, matte surface
  style phones, color colors
portable speakers | electronics | Electronics › Audio › Home › Speakers | 19 to 210
  portable speaker, shower speaker, party speaker
  picnics, bathrooms, small rooms
  water resistant, stereo pairing, carry strap, built in microphone, full sound, all day battery
  color colors, size speakers
keyboards | electronics | Electronics › Computers › Input › Keyboards | 24 to 190
  mechanical keyboard, quiet keyboard, folding keyboard
  writers, gamers, shared desks
  hot swappable, back lit, low profile, media keys, spill resistant, wrist rest
  color colors, style switches
throw pillows | garden | Home › Bedding › Decorative › Pillows | 11 to 70
  throw pillow, floor pillow, velvet pillow
  sofas, reading corners, guest rooms
  hidden zipper, double sided, feather filling, hand woven, super soft, removable cover
  size cushions, color colors
bookcases | garden | Home › Furniture › Office › Bookcases | 60 to 420
  corner bookcase, ladder bookcase, low bookcase
  living rooms, narrow halls, home offices
  metal frame, adjustable shelves, wall mounted, open back, anti tip, five shelves
  color finishes, size widths
desk lamps | garden | Home › Lighting › Lamps › Desk | 16 to 120
  desk lamp, clamp lamp, reading lamp
  late work, drawing tables, students
  dimmable light, usb port, swing arm, warm white, touch control, weighted base
  color finishes
throw blankets | garden | Home › Bedding › Blankets › Throws | 18 to 110
  throw blanket, picnic blanket, weighted blanket
  cold evenings, naps, camp fires
  fleece lining, cable knit, fringed edge, pet friendly, year round, thick weave
  size throws, color colors
plant pots | garden | Home › Gardening › Containers › Pots | 7 to 55
  plant pot, hanging pot, herb pot
  balconies, window sills, succulents
  drainage hole, frost proof, glazed ceramic, self watering, with saucer, stackable shape
  size pots, color colors, pack boxes
teas | grocery | Grocery › Beverages › Tea › Bags | 4 to 36
  tea bags, loose tea, breakfast tea
  mornings, iced pitchers, quiet evenings
  caffeine free, fair trade, whole leaf, compostable bags, bold taste, sugar free
  flavor teas, pack packs
coffee beans | grocery | Grocery › Beverages › Coffee › Beans | 9 to 70
  coffee beans, espresso beans, estate beans
  filter machines, cold brew, offices
  single origin, shade grown, small batch, low acid, freshly roasted, rich crema
  flavor roasts, size bags
granolas | grocery | Grocery › Breakfast › Cereals › Granola | 5 to 40
  oat granola, nut granola, crunchy granola
  breakfast bowls, hikes, lunch boxes
  high protein, whole grain, no added sugar, plant based, dietary fiber, slow baked
  flavor snacks, pack packs
dark chocolates | grocery | Grocery › Sweets › Chocolate › Bars | 4 to 48
  dark chocolate, drinking chocolate, baking chocolate
  gifts, baking, after dinner
  dairy free, stone ground, individually wrapped, soy free, high cocoa, bean to bar
  flavor snacks, pack packs
pasta sauces | grocery | Grocery › Pantry › Sauces › Pasta | 5 to 34
  pasta sauce, simmer sauce, pizza sauce
  quick dinners, lasagna, families
  family recipe, keto friendly, extra virgin, glass jar, vine ripened, artificial colors free
  flavor sauces, pack packs
""")
)

BRANDS = _lists("""
begin: Nor, Bel, Hart, Quin, Tal, Ever, Marl, Pen, Osk, Wren, Cal, Dun, Fair, Isk, Lor
end: wick, vale, mere, bury, stow, field, combe, ridge, haven, lund
""")
SERIES = (
    *(
        "Harbor",
        "Summit",
        "Meadow",
        "Lantern",
        "Orchard",
        "Compass",
        "Pebble",
        "Juniper",
        "Marble",
        "Thistle",
        "Canyon",
    ),
    *(
        "Canyon",
        "Willow",
        "Ember",
        "Drift",
        "Aurora",
        "Quarry",
        "Clover",
        "Beacon",
        "Tundra",
        "Saffron",
        "Cobble",
        "Heron",
    ),
)

OPENINGS = (
    "The {series} {name} by {brand} is made for {use}.",
    "For {use} there is the {brand} {name} of the {series} line.",
    "{brand} has made this {name} with {use} in mind.",
    "Meet the {series}: a {name} for {use}, from the workshop of {brand}.",
)
MIDDLES = (
    "You asked for {attributes}, and that is what you get.",
    "What sets it apart: {attributes}.",
    "Among its strengths are {attributes}.",
    "Think of {attributes}, all in one.",
)
CLOSINGS = (
    "It also makes a good present.",
    "If you are not happy with it, send it back within thirty days.",
    "Please read the features before you order.",
    "Our small team answers every letter.",
    "It leaves our warehouse on the day after your order.",
)
REASONS = (
    "chosen after many months of trying",
    "because the small things count",
    "as our customers asked for it",
    "so that you can rely on it every day",
    "made to stay that way for years",
    "checked by hand before it is packed",
    "which is rarer than one would think",
    "a detail that others leave out",
)
PRAISE = (
    ("Just right", "It does what the page says. I would order it again."),
    ("A gift that was liked", "My sister has not put it down since."),
    ("Better than the last one", "I had another make before; this one is well thought out."),
    ("Good value", "Not the cheapest, but it will last."),
)
BLAME = (
    ("Not for me", "It is fine, but I had imagined something else."),
    ("Came late", "The parcel took two weeks. The thing itself is all right."),
    ("Smaller than I thought", "Read the sizes twice before you order."),
    ("It could be better", "After a month it already looks old."),
)
