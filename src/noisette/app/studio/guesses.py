"""What kind of column a name suggests. Nothing here has seen a cell."""

import re

_WORDS = {
    "ignore": """id ids uuid guid key identifier nr name surname firstname lastname forename email
        mail phone telephone mobile fax address street comment comments note notes text description
        remark remarks ssn nhs iban url link index rowid token hash photo image""",
    "hashed": """zip zipcode postcode postal plz icd icd9 icd10 diag diagnosis procedure drg atc
        ip isin sku merchant""",
    "date": """date datetime timestamp dob birthdate birthday born admitted discharged""",
    "numeric": """age years hours days minutes seconds weeks num number count counts amount price
        cost costs income salary wage wages balance weight wgt fnlwgt height bmi size length width
        depth distance rate ratio percent pct score total sum mean avg average min max minimum
        maximum duration stay pressure systolic diastolic glucose cholesterol temperature temp lat
        lon latitude longitude gain loss tenure charge charges bill limit elevation slope rooms
        value quantity volume population visits children pulse dose lab creatinine hemoglobin""",
    "categorical": """sex gender race ethnicity education occupation job work workclass class
        marital status relationship country nationality region state county city ward department
        dept hospital clinic type kind category group colour color smokes smoker smoking flag
        default housing loan contact outcome poutcome method service plan contract internet partner
        dependents language religion party brand insurance specialty stage grade blood""",
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_TRUE = {"is", "has", "had", "was"}


def guessed_kind(name: str) -> str:
    """Return the kind that a name suggests, by its last telling word; nothing if none is known."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name[:200])
    words = [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
    if words and words[0] in _TRUE and len(words) > 1:
        return "categorical"
    if len(words) > 1 and words[-1] in ("at", "on"):  # admitted_at
        return "date"
    return next((_KINDS[word] for word in reversed(words) if word in _KINDS), "")
